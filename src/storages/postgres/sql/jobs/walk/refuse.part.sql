-- The head can never start under a limit: it ends.
--
-- Reads: head, keeper, meter, kept_weight, kept_slots. Changes: vain, and what comes of it.
vain := vain + 1;
d_refused := d_refused || j_place[head];
d_refused_seqs := d_refused_seqs || j_seq[head];
d_refused_meters := d_refused_meters || keeper;
d_refused_weights := d_refused_weights || CASE WHEN meter.weighs_window THEN kept_weight ELSE kept_slots END;
