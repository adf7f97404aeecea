-- What the walk came to. Of all that keeps jobs back, what will be first to let one start is told.
--
-- Reads: everything. Makes: the answer.
DECLARE
  done {schema}.walked;
  -- Somebody could start at once: what keeps others back is told as it was.
  as_it_was boolean := more;
  own float8;
  keeps integer;
  best_wait float8 := forever;
  best_by integer;
  d_lanes bigint[] := '{}';
  d_turns integer[] := '{}';
  d_served integer[] := '{}';
  d_gave boolean[] := '{}';
BEGIN
  IF as_it_was THEN
    FOREACH kind IN ARRAY closed LOOP
      kept_waits := kept_waits || t_closed[kind];
      kept_by := kept_by || t_closed_by[kind];
    END LOOP;
  END IF;
  FOREACH kind IN ARRAY blocked LOOP
    longest := t_blocked[kind];
    keeper := t_blocked_by[kind];
    IF NOT as_it_was THEN
      -- The limits for all may let a start happen only later (`earliest` in planner/claim-limits.ts).
      FOR r IN 1 .. all_count LOOP
        CONTINUE WHEN NOT applies[(kind - 1) * rule_count + r];
        own := {schema}.limit_wait(meters[r], accounts[m_account[r]], 1, 1, now);
        IF own > longest THEN
          longest := own;
          keeper := r;
        END IF;
      END LOOP;
    END IF;
    kept_waits := kept_waits || longest;
    kept_by := kept_by || keeper;
  END LOOP;
  FOR k IN 1 .. cardinality(kept_by) LOOP
    IF best_by IS NULL OR kept_waits[k] < best_wait THEN
      best_wait := kept_waits[k];
      best_by := kept_by[k];
    END IF;
  END LOOP;
  done.at := now;
  done.more := more OR vain >= patience;
  done.next_in := best_wait;
  IF best_by IS NOT NULL THEN
    meter := meters[best_by];
    done.blocked_by := meter.name || CASE WHEN meter.by_group AND meter.grp IS NOT NULL THEN '[' || meter.grp || ']' ELSE '' END;
  END IF;
  FOR k IN 1 .. unit_count LOOP
    CONTINUE WHEN NOT u_touched[k];
    FOR own_lane IN u_from[k] .. u_to[k] LOOP
      d_lanes := d_lanes || l_id[own_lane];
      d_turns := d_turns || u_turn[k];
      d_served := d_served || u_served[k];
      d_gave := d_gave || l_gave[own_lane];
    END LOOP;
  END LOOP;
  done.places := d_places;
  done.seqs := d_seqs;
  done.use_starts := d_use_starts;
  done.use_meters := d_use_meters;
  done.use_weights := d_use_weights;
  done.use_slots := d_use_slots;
  done.meters := meters;
  done.accounts := accounts;
  done.lanes := d_lanes;
  done.turns := d_turns;
  done.served := d_served;
  done.gave := d_gave;
  done.emptied := d_emptied;
  done.blocked := d_blocked;
  done.blocked_waits := d_blocked_waits;
  done.blocked_names := d_blocked_names;
  done.blocked_heavy := d_blocked_heavy;
  done.refused := d_refused;
  done.refused_seqs := d_refused_seqs;
  done.refused_meters := d_refused_meters;
  done.refused_weights := d_refused_weights;
  done.freed_names := d_freed_names;
  done.freed_grps := d_freed_grps;
  RETURN done;
END;
