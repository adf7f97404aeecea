-- Writes down how leases ended. Everything but limits: those hear of it first.
--
-- ats, ns, tos, results: as lock_leases answers. woken: [[queue, news]]. late: one came back whose deadline has passed. told:
-- events were written.
CREATE OR REPLACE FUNCTION {schema}.end_leases(outcomes json, ats tid[], ns integer[], tos text[], results text[], now float8,
  OUT woken json, OUT late boolean, OUT told boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  well integer := cardinality(ats) - cardinality(array_remove(tos, NULL));
  count integer := 0;
BEGIN
  late := false;
  told := {schema}.events_wanted(now);
  IF told THEN
    PERFORM {schema}.tell_ended(outcomes, ats, ns, now);
  ELSIF {schema}.ends_wanted(now) THEN
    told := {schema}.tell_ends(ARRAY(SELECT j.id FROM unnest(ats) AS l (at) JOIN {schema}.jobs j ON j.ctid = l.at), now);
  END IF;
  IF well > 0 THEN
    UPDATE {schema}.jobs j SET state = 'completed', finished_at = now, lease_until = NULL, result = e.result,
      delete_at = now + coalesce(j.keep_for, {schema}.kept_ms('completed'))
    FROM unnest(ats, tos, results) AS e (at, how, result)
    WHERE j.ctid = e.at AND e.how IS NULL AND j.keep_for IS DISTINCT FROM 0;
    GET DIAGNOSTICS count = ROW_COUNT;
    IF count < well THEN
      PERFORM {schema}.delete_jobs(array_agg(j.seq), array_agg(j.id))
      FROM unnest(ats, tos) AS e (at, how) JOIN {schema}.jobs j ON j.ctid = e.at
      WHERE e.how IS NULL AND j.keep_for = 0 AND j.state = 'active';
    END IF;
  END IF;
  IF well < cardinality(ats) THEN
    SELECT r.woken, r.late INTO woken, late FROM {schema}.release_leases(outcomes, ats, ns, now) r;
  END IF;
END
$$;
