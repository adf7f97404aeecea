-- Keeps what a step has answered, for a client that never hears it and asks again (begin_attempt, whose way of naming this follows). What
-- was refused is decided anew then, so that is not kept. Answers with the same.
CREATE OR REPLACE FUNCTION {schema}.keep_answer(number bigint, nth integer, answer text) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF pg_catalog.starts_with(answer, '{"granted" : false') THEN
    RETURN answer;
  END IF;
  INSERT INTO {schema}.steps AS s (number, nth, answer, until)
  VALUES (keep_answer.number, keep_answer.nth, keep_answer.answer, {schema}.wall() OPERATOR(pg_catalog.+) 120000)
  ON CONFLICT ON CONSTRAINT steps_pkey DO UPDATE SET answer = excluded.answer;
  -- There may be nothing that sweeps.
  IF pg_catalog.random() OPERATOR(pg_catalog.<) 0.01 THEN
    PERFORM {schema}.prune_steps(200);
  END IF;
  RETURN answer;
END
$$;
