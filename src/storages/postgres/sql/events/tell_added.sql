-- Tells others of jobs that this transaction adds, when it is committed and not before, unless somebody else is doing so: whoever notifies
-- keeps all others waiting who notify until his commit is on disk. So one of us may at a time, and nobody waits for it.
--
-- teller: who adds; NULL: nothing is told here. listened: is there anybody else who listens? news: as jobs/lane_news.sql. heard: events
-- were written. The answer: others were told; NULL: that is to be done afterwards (events/tell.sql).
CREATE OR REPLACE FUNCTION {schema}.tell_added(teller text, listened boolean, queue text, news boolean, heard boolean)
RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT CASE
    -- Who finds nobody has looked before the commit: somebody may have come by then.
    WHEN teller IS NULL OR (news IS NULL AND NOT heard) OR listened IS NOT TRUE THEN NULL
    -- There is a bound to what can be said at once.
    WHEN octet_length(queue) > 1000 OR NOT pg_try_advisory_xact_lock({schema}.lock_key('telling', '')) THEN NULL
    ELSE pg_notify({schema}.channel(), json_build_object('origin', teller, 'queues',
      CASE WHEN news IS NOT NULL THEN json_build_array(json_build_array(queue, news)) END, 'events', heard)::text) IS NOT NULL
    END
$$;
