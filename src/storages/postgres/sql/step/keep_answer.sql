-- Keeps what a step has answered, for a client that never hears it and asks again (begin_attempt). What was refused is decided anew
-- then, so that is not kept. Answers with the same.
CREATE OR REPLACE FUNCTION {schema}.keep_answer(number text, nth integer, answer text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF answer LIKE '{"granted" : false%' THEN
    RETURN answer;
  END IF;
  INSERT INTO {schema}.steps AS s (number, nth, answer, until)
  VALUES (keep_answer.number, keep_answer.nth, keep_answer.answer, {schema}.wall() + 120000)
  ON CONFLICT ON CONSTRAINT steps_pkey DO UPDATE SET answer = excluded.answer;
  -- There may be nothing that sweeps.
  IF random() < 0.01 THEN
    PERFORM {schema}.prune_steps(200);
  END IF;
  RETURN answer;
END
$$;
