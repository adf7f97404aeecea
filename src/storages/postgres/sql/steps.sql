-- How every step begins, and the locks that steps take, in their order: rules, jobs, limits.
--
-- Settings that functions have which are called from outside:
-- search_path: no name means anything of the user's.
-- enable_seqscan = off: plans are kept for a session, also those made while the tables were empty.
-- jit = off: what is scanned all the same counts as so expensive then that the server would compile it, for 164 ms an expression.
-- plan_cache_mode = force_generic_plan, for what is called often: settling 100 jobs took 7 ms with it, and 13 without.

-- Every step begins with it. Decisions are made on what was committed before the locks were taken: only READ COMMITTED
-- looks again after a lock. No step waits for a lock for longer than a few seconds.
--
-- The rules lock is shared by all steps; a step that changes rules has it alone. While such a step waits for the lock, all later steps
-- wait behind it: so it gives up soon (55P03), and the client lets them pass before it tries again. The setting sluice.tries says how
-- often it has tried: where every step takes long, it waits longer in the end.
CREATE OR REPLACE FUNCTION {schema}.begin_step(alone boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- Expressions cost less than statements.
  done boolean;
  tries integer;
  -- The client says for how long, with every call.
  bound text := CASE current_setting('lock_timeout') WHEN '0' THEN '2s' ELSE current_setting('lock_timeout') END;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'this has to run in a transaction that is READ COMMITTED' USING ERRCODE = 'SL001';
  END IF;
  IF alone THEN
    tries := coalesce(nullif(current_setting('sluice.tries', true), '')::integer, 0);
    done := set_config('lock_timeout', least(2000, 200 * 2 ^ greatest(0, tries - 4))::integer::text, true) IS NULL;
  ELSE
    done := set_config('lock_timeout', bound, true) IS NULL;
  END IF;
  IF alone THEN
    done := pg_advisory_xact_lock({schema}.lock_key('rules', '')) IS NULL;
    done := set_config('lock_timeout', bound, true) IS NULL;
  ELSE
    done := pg_advisory_xact_lock_shared({schema}.lock_key('rules', '')) IS NULL;
  END IF;
END
$$;

-- Begins an attempt of a step that must not be committed twice. Each step has a number of its own, and its attempts the numbers 0, 1,
-- 2 … (retry-policy.ts): a later one is made where the outcome of those before is unknown.
--
-- Attempts of one step exclude each other: a later one waits until the transaction of an earlier one is over, also while its COMMIT
-- waits for a synchronous standby, and leaves a row (a fence). An earlier one that arrives after that, from some buffer of the
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

-- Keeps the answer of a step, for a repeat of its call (begin_attempt, whose way of naming this follows). A refusal is not kept: a repeat
-- decides anew. Answers with the same.
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

-- Deletes what need not be known of steps any more, so many rows at the most. How many there were.
CREATE OR REPLACE FUNCTION {schema}.prune_steps(most integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
  count integer;
BEGIN
  DELETE FROM {schema}.steps s WHERE s.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.steps o WHERE o.until <= {schema}.wall() LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS count = ROW_COUNT;
  RETURN count;
END
$$;

-- What an advisory lock of this kind is called, for this name. Two names that share a number only wait for each other: all limits share
-- 1024 of them, so that a step which locks very many takes no more entries in a table of the server that is not large.
CREATE OR REPLACE FUNCTION {schema}.lock_key(kind text, name text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN kind = 'limit' THEN (hashtextextended(kind, hashtextextended('{schema}', 7309453)) & ~1023::bigint)
      | (hashtextextended(name, 7309453) & 1023)
    ELSE hashtextextended(kind || ':' || name, hashtextextended('{schema}', 7309453)) END
$$;

-- Locks the state of these limits until the end of the transaction, for all of their groups. Taken last, all at once and sorted: a step
-- that has them waits for nothing more. Answers whether it had to wait.
CREATE OR REPLACE FUNCTION {schema}.lock_limits(names text[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  -- One after the other, as they come out of the subquery. Its answer must depend on the lock, or the planner leaves that out.
  RETURN (SELECT bool_or(CASE WHEN pg_try_advisory_xact_lock(s.key) THEN false
      ELSE pg_advisory_xact_lock(s.key) IS NOT NULL END)
    FROM (SELECT DISTINCT {schema}.lock_key('limit', name) AS key FROM unnest(names) AS name ORDER BY key OFFSET 0) AS s);
END
$$;
