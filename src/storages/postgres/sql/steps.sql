-- How every step begins: the clock, attempts of steps, and the locks that steps take, in their order: rules, jobs, limits.
--
-- Locks: `begin_step` takes the lock of the rules, `begin_attempt` that of the step, `lock_limits` those of limits; `moment` may lock the row
-- of the clock.
--
-- Settings that functions have which are called from outside:
-- search_path: no name means anything of the user's.
-- enable_seqscan = off: plans are kept for a session, also those made while the tables were empty.
-- jit = off: what is scanned all the same counts as so expensive then that the server would compile it, for 164 ms an expression.
-- plan_cache_mode = force_generic_plan, for what is called often: settling 100 jobs took 7 ms with it, and 13 without.
-- enable_hashjoin = off, for settling and confirming: a hash join that was planned while the tables were empty reads a whole table. With
-- 20,000 jobs and limits a settle of one job took 1.5 ms with it, and 3.3 without, of 100 jobs 3.6 and 5.4, a confirmation 0.7 and 4.4.
-- enable_hashjoin = on, for functions that join the lists that such a step is given: where hash and merge joins are off, 1,000 outcomes took
-- 30 ms with it, and 150 without.

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

-- The clock of the server, in milliseconds since 1970. Nothing else reads it: tests put another one in its place.
CREATE OR REPLACE FUNCTION {schema}.wall() RETURNS float8
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
  SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000)::pg_catalog.float8
$$;

-- The time of the storage. It does not run backwards: where the clock of the server was set back, all of the storage goes on
-- from the time that was seen last, and stays ahead of the clock by the difference.
--
-- The last time seen is written once in a while (every 100 ms at most), by a step that need not wait for the row. So
-- a step back that is smaller than that is not seen here; no log of starts goes backwards all the same (limits.newest).
--
-- The clock is read after what it is compared with, and again after a wait: else the time that passed in between would look like
-- a clock that was set back.
CREATE OR REPLACE FUNCTION {schema}.moment() RETURNS float8
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  seen record;
  now float8;
BEGIN
  SELECT last, skew INTO seen FROM {schema}.meta;
  now := {schema}.wall();
  IF now + seen.skew < seen.last THEN
    SELECT last, skew INTO seen FROM {schema}.meta FOR UPDATE;
    now := {schema}.wall();
    IF now + seen.skew < seen.last THEN
      UPDATE {schema}.meta SET skew = last - now RETURNING last, skew INTO seen;
    END IF;
  ELSIF now + seen.skew >= seen.last + 100 THEN
    PERFORM FROM {schema}.meta FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      UPDATE {schema}.meta SET last = greatest(last, now + seen.skew);
    END IF;
  END IF;
  RETURN now + seen.skew;
END
$$;

-- The time of the storage for functions that only read: what moment would say, without a write. VOLATILE: it looks
-- at the clock as it is when it is called, and not as it was when the statement around it began (repair_clock).
CREATE OR REPLACE FUNCTION {schema}.present() RETURNS float8
LANGUAGE sql VOLATILE AS $$
  SELECT greatest(last, {schema}.wall() + skew) FROM {schema}.meta
$$;

-- How far the clock of the storage is ahead of the clock of the server, as moment would say. Users give and see instants by the
-- clock of the server: those that come in are kept with this added, those that go out are shown without.
CREATE OR REPLACE FUNCTION {schema}.skew() RETURNS float8
LANGUAGE sql VOLATILE AS $$
  SELECT greatest(skew, last - {schema}.wall()) FROM {schema}.meta
$$;

-- Has an instant passed that was given by the clock of the server? NULL, for there is none: yes. Asked of what has passed by the
-- clock of the storage, which may have been set forward since the instant was given.
CREATE OR REPLACE FUNCTION {schema}.has_passed(given float8) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN given IS NULL THEN true ELSE given <= {schema}.wall() END
$$;

-- Takes the offset out of the clock: every instant of the storage moves by it, in one transaction, so that ages, and with them all
-- decisions, stay as they are. Whole milliseconds, for those move any instant without rounding it. Answers by how many.
--
-- Whatever has read the clock holds the table `meta` until its transaction ends: once this has the table alone, all of them
-- are over, and later steps read the clock anew. It gives up soon where a transaction stays open (55P03).
--
-- instants: which columns of numbers hold instants, as a regular expression (storage/clock-repair.ts).
CREATE OR REPLACE FUNCTION {schema}.repair_clock(instants text) RETURNS float8
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  ahead float8;
  moved record;
BEGIN
  PERFORM set_config('lock_timeout', '5000', true);
  LOCK TABLE {schema}.meta IN ACCESS EXCLUSIVE MODE;
  ahead := trunc({schema}.skew());
  FOR moved IN
    SELECT c.relname AS name,
      string_agg(format('%1$I = CASE WHEN %1$I BETWEEN 1 AND 1e17 THEN %1$I - $1 ELSE %1$I END', a.attname), ', ') AS sets
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind = 'r' AND c.relname <> 'meta'
      AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid = 'float8'::regtype AND a.attname ~ instants
    GROUP BY c.relname ORDER BY c.relname
  LOOP
    EXECUTE format('UPDATE {schema}.%I SET %s', moved.name, moved.sets) USING ahead;
  END LOOP;
  UPDATE {schema}.meta SET last = last - ahead, skew = greatest(skew, last - {schema}.wall()) - ahead, rules = rules + 1;
  UPDATE {schema}.jobs j SET due_at = j.due_wall + {schema}.skew() WHERE j.due_wall IS NOT NULL;
  UPDATE {schema}.jobs j SET deadline = j.deadline_wall + {schema}.skew()
    WHERE j.deadline_wall IS NOT NULL AND j.finished_at IS NULL;
  -- What running jobs took of limits: the fifth of each list is an instant, where there is one.
  UPDATE {schema}.jobs j SET limits = (
    SELECT jsonb_agg(CASE WHEN jsonb_typeof(t.value -> 4) = 'number'
      THEN jsonb_set(t.value, '{4}', to_jsonb((t.value ->> 4)::float8 - ahead)) ELSE t.value END ORDER BY t.ordinality)
    FROM jsonb_array_elements(j.limits) WITH ORDINALITY t)
  WHERE j.state = 'active' AND jsonb_typeof(j.limits) = 'array' AND jsonb_array_length(j.limits) > 0;
  UPDATE {schema}.rules r SET stored = r.stored || s.instants, rule = r.rule || s.instants,
    fields = {schema}.read_rule(r.rule || s.instants)
  FROM (
    SELECT k.name, jsonb_strip_nulls(jsonb_build_object('heldUntil', (k.rule ->> 'heldUntil')::float8 - ahead,
      'blindUntil', (k.rule ->> 'blindUntil')::float8 - ahead)) AS instants
    FROM {schema}.rules k
  ) s WHERE s.name = r.name AND s.instants <> '{}';
  RETURN ahead;
END
$$;
