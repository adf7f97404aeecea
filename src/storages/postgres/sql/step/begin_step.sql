-- Every step begins with it. Decisions are made on what was committed before the locks were taken: only READ COMMITTED
-- looks again after a lock. No step waits for a lock for longer than a few seconds.
--
-- The rules lock is shared by all steps; whoever changes rules has it for himself, and all of the storage with it. Who waits to be
-- alone keeps everybody waiting who comes behind him: he gives up soon (55P03), and the client lets them pass before it tries
-- again. The setting sluice.tries says how often it has: where every step takes long, he has to be more stubborn in the end. But
-- where there are so many limits that all are alone, one after the other, he keeps his place like everybody.
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
  IF alone AND NOT {schema}.many_rules() THEN
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
