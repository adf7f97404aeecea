-- Begins an attempt at a step that must not be done twice. Each step has a number of its own, and its attempts the numbers 0, 1, 2 …
-- (patience.ts): later ones are for a client that does not know what became of those before.
--
-- Attempts at one step exclude each other: a later one waits until the transaction of an earlier one is over, also while its COMMIT
-- waits for a synchronous standby, and leaves word of itself. An earlier one that arrives after that, from some buffer of the
-- network, changes nothing (SL002); and so does the first, if another one is there already. Only READ COMMITTED sees what was
-- committed while the lock was waited for.
--
-- Answers with what the step has answered, if it was done and that was kept (keep_answer); else NULL.
--
-- Every name and operator says where it is from: that costs less than a search path of its own.
CREATE OR REPLACE FUNCTION {schema}.begin_attempt(number bigint, nth integer) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  seen record;
BEGIN
  IF pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.<>) 'read committed' THEN
    RAISE EXCEPTION 'this has to run in a transaction that is READ COMMITTED' USING ERRCODE = 'SL001';
  END IF;
  IF nth OPERATOR(pg_catalog.=) 0 THEN
    IF pg_catalog.pg_try_advisory_xact_lock(number) THEN
      PERFORM FROM {schema}.steps s WHERE s.number OPERATOR(pg_catalog.=) begin_attempt.number;
      IF NOT FOUND THEN
        RETURN NULL;
      END IF;
    END IF;
    RAISE EXCEPTION 'a later attempt at this step came before this one' USING ERRCODE = 'SL002';
  END IF;
  PERFORM pg_catalog.pg_advisory_xact_lock(number);
  SELECT s.nth, s.answer INTO seen FROM {schema}.steps s WHERE s.number OPERATOR(pg_catalog.=) begin_attempt.number;
  IF seen.nth OPERATOR(pg_catalog.>=) begin_attempt.nth THEN
    RAISE EXCEPTION 'a later attempt at this step came before this one' USING ERRCODE = 'SL002';
  END IF;
  -- So long nothing stays in a network: Linux gives up on a connection after a quarter of an hour.
  INSERT INTO {schema}.steps AS s (number, nth, until)
  VALUES (begin_attempt.number, begin_attempt.nth, {schema}.wall() OPERATOR(pg_catalog.+) 3600000)
  ON CONFLICT ON CONSTRAINT steps_pkey DO UPDATE SET nth = excluded.nth, until = excluded.until;
  RETURN seen.answer;
END
$$;
