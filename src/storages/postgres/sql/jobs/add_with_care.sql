-- Adds jobs where something may have to be refused: they ask for idempotency keys, or are weighed. What is refused raises
-- SQLSTATE SL002. Keys that are free are taken for all jobs together; where one is not, the jobs come one by one.
--
-- Answers as add_rows does. others: [[number of the job from 0, the id that there is instead]]. gone: jobs that waited, and have
-- given way to others.
CREATE OR REPLACE FUNCTION {schema}.add_with_care(jobs json, now float8, OUT made text[], OUT woken json, OUT told boolean,
  OUT others json, OUT gone {schema}.gone_job[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  one record;
  taken record;
  rows record;
  wakes json[] := '{}';
  instead json[] := '{}';
BEGIN
  gone := '{}';
  IF {schema}.lock_keys(jobs, now) THEN
    SELECT * INTO rows FROM {schema}.add_rows(jobs, now, false);
    made := rows.made;
    woken := rows.woken;
    told := rows.told;
    others := {schema}.not_added(jobs, made);
  ELSE
    made := '{}';
    told := false;
    PERFORM {schema}.lock_holders(jobs, now);
    FOR one IN
      SELECT e.no - 1 AS no, e.job, n.* FROM json_array_elements(jobs) WITH ORDINALITY AS e (job, no)
      CROSS JOIN LATERAL json_to_record(e.job) AS n (id text, queue text, key text, fingerprint text, ttl float8, on_duplicate text)
      ORDER BY e.no
    LOOP
      IF one.key IS NOT NULL THEN
        SELECT * INTO taken FROM {schema}.take_key(one.id, one.queue, one.key, one.fingerprint, one.ttl, one.on_duplicate, now);
        IF (taken.gone).queue IS NOT NULL THEN
          gone := gone || taken.gone;
        END IF;
        IF taken.earlier IS NOT NULL THEN
          instead := instead || json_build_array(one.no, taken.earlier);
          CONTINUE;
        END IF;
      END IF;
      SELECT * INTO rows FROM {schema}.add_rows(json_build_array(one.job), now, false);
      IF cardinality(rows.made) = 0 THEN
        instead := instead || json_build_array(one.no, one.id);
      ELSE
        made := made || one.id;
        told := told OR rows.told;
        IF rows.woken IS NOT NULL THEN
          wakes := wakes || (rows.woken -> 0);
        END IF;
      END IF;
    END LOOP;
    -- Those that were locked for a job that was there already.
    DELETE FROM {schema}.keys k USING json_to_recordset(jobs) AS n (queue text, key text)
    WHERE k.queue = n.queue AND k.key = n.key AND k.expires_at = '-Infinity';
    others := array_to_json(instead);
    woken := array_to_json(wakes);
  END IF;
  PERFORM {schema}.refuse_impossible(made);
END
$$;
