-- What processes of version 1 call. They do not look at the version again once they run, so these functions refuse them, in words that
-- they pass on. Their connections remember statements with the types of their values, so the types are those of version 1; of the names
-- of parameters version 1 uses only `again`. From version 2 on the names of functions that processes call end with the version, and a
-- process that misses one reads the version (migrations.ts).
--
-- Locks: none. The next version drops them by their names, which the step to version 2 lists.
DO $refusals$
DECLARE
  signature text;
BEGIN
  FOREACH signature IN ARRAY ARRAY[
    'add(json, boolean DEFAULT false, again boolean DEFAULT false)', 'add_many(text, text, json, text, again boolean DEFAULT false)',
    'add_one(text, text, text, text, float8, float8, float8, text, jsonb, bigint, text, float8, float8, float8, float8, text, again boolean DEFAULT false)',
    'asked_to_stop(json)', 'beat(text, boolean, text)', 'change(json)', 'claim(json, again boolean DEFAULT false)', 'confirm(json)',
    'explain_job(text)', 'find_jobs(json)', 'give_permit(bigint, bigint, float8, float8, float8, text, float8)',
    'heartbeat(json, float8)', 'hold_limit(text, text, float8)', 'job_history(text)', 'leave(text)', 'list_jobs(json)',
    'overview(text)', 'publish(text)', 'rate_cancel(text, bigint, bigint)', 'rate_clear(text)', 'rate_confirm(text, json)',
    'rate_count(text, float8)', 'rate_oldest(text, bigint)', 'rate_pause(text, float8)', 'rate_paused(text)', 'rate_record(text)',
    'rate_settle(text, bigint, bigint, float8, float8)', 'rate_try(text, float8, float8, float8, float8 DEFAULT NULL)',
    'read_backlog(text)', 'read_events(bigint, json, int)', 'read_limits(text, text)', 'read_rules()', 'renew_permits(jsonb, float8)',
    'report(json)', 'set_paused(text, text, boolean)', 'settle(json, again boolean DEFAULT false)', 'sweep()',
    'take_permit(text, text, float8, boolean, float8, float8 DEFAULT NULL)', 'tell(text, text)',
    'tell_limit(text, text, float8, float8)', 'write_rules(bigint, jsonb)'
  ] LOOP
    EXECUTE 'CREATE OR REPLACE FUNCTION {schema}.' || signature || ' RETURNS text LANGUAGE plpgsql AS $refusal$ BEGIN
      RAISE EXCEPTION ''the schema {schema} is of a newer version of sluice ({version}) than this process (1): update sluice''
        USING ERRCODE = ''SL004'';
    END $refusal$';
  END LOOP;
END
$refusals$;
