-- Takes hold of the jobs that a walk has come to. Answers with those that are not to be had: somebody else has his hands on
-- them, or has changed them since; NULL: all are.
CREATE OR REPLACE FUNCTION {schema}.lock_walked(walked {schema}.walked) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  places tid[] := walked.places || walked.refused;
  held tid[];
BEGIN
  IF places = '{}' THEN
    RETURN NULL;
  END IF;
  SELECT array_agg(h.place) INTO held FROM (
    SELECT j.ctid AS place FROM {schema}.jobs j WHERE j.ctid = ANY (places) AND j.state = 'waiting' FOR UPDATE SKIP LOCKED
  ) h;
  IF cardinality(held) = cardinality(places) THEN
    RETURN NULL;
  END IF;
  RETURN (SELECT array_agg(w.seq) FROM unnest(places, walked.seqs || walked.refused_seqs) AS w (place, seq)
    WHERE held IS NULL OR w.place <> ALL (held));
END
$$;
