-- What processes of version 1 call, as they call it: connections remember statements with the kinds of their values. They do not look at
-- the version again once they run, so these refuse, in words that they pass on. From version 2 on the names of functions that
-- processes call end with the version, and one that is not there is looked into (migrations.ts).

CREATE OR REPLACE FUNCTION {schema}.refuse_version_1() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the schema {schema} is of a newer version of sluice ({version}) than this process (1): update sluice'
    USING ERRCODE = 'SL004';
END
$$;

CREATE OR REPLACE FUNCTION {schema}.add(jobs json, notify boolean DEFAULT false, again boolean DEFAULT false) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.add_many(ids text, data text, columns json, teller text,
  again boolean DEFAULT false) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.add_one(id text, data text, queue text, type text, due float8, due_in float8,
  priority float8, grp text, weights jsonb, max_attempts bigint, backoff text, timeout float8, deadline float8,
  deadline_in float8, keep_for float8, teller text, again boolean DEFAULT false) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.asked_to_stop(ids json) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.beat(origin text, wants boolean, ear text) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.change(wanted json) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.claim(request json, again boolean DEFAULT false) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.confirm(said json) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.explain_job(job_id text) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.find_jobs(ids json) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.give_permit(limit_id bigint, number bigint, reserved float8, taken_at float8,
  corrected_until float8, how text, used float8) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.heartbeat(leases json, lease_ms float8) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.hold_limit(limit_name text, grp text, hold_ms float8) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.job_history(id text) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.leave(origin text) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.list_jobs(query json) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.overview(queue text) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.publish(event text) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.rate_cancel(limit_name text, limit_id bigint, number bigint) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.rate_clear(limit_name text) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.rate_confirm(limit_name text, said json) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.rate_count(limit_name text, after float8) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.rate_oldest(name text, skipped bigint) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.rate_pause(limit_name text, pause_ms float8) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.rate_paused(name text) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.rate_record(limit_name text) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.rate_settle(limit_name text, limit_id bigint, number bigint, reserved float8,
  used float8) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.rate_try(limit_name text, most float8, window_ms float8, weight float8,
  grant_ttl float8 DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.read_backlog(of_queue text) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.read_events(newest bigint, gaps json, most int) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.read_limits(wanted text, asked text) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.read_rules() RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.renew_permits(numbers jsonb, ttl_ms float8) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.report(reports json) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.set_paused(queue text, type text, paused boolean) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.settle(outcomes json, again boolean DEFAULT false) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.sweep() RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.take_permit(limit_name text, grp text, asked float8, dry boolean, ttl_ms float8,
  grant_ttl float8 DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.tell(origin text, news text) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.tell_limit(limit_name text, grp text, remaining float8, reset_ms float8) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
CREATE OR REPLACE FUNCTION {schema}.write_rules(expected bigint, changes jsonb) RETURNS text
LANGUAGE sql AS $$ SELECT {schema}.refuse_version_1() $$;
