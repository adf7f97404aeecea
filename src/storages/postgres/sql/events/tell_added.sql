-- Tells others of jobs that this transaction adds, when it is committed and not before, unless somebody else is doing so: whoever notifies
-- keeps all others waiting who notify until his commit is on disk. So one of us may at a time, and nobody waits for it.
--
-- teller: who adds. news: as jobs/lane_news.sql. heard: events were written. The answer: others were told; false: nobody listens; NULL:
-- it has to be told afterwards (events/tell.sql).
CREATE OR REPLACE FUNCTION {schema}.tell_added(teller text, queue text, news boolean, heard boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM {schema}.listeners l WHERE l.origin <> teller AND l.until > {schema}.present()) THEN
    RETURN false;
  END IF;
  IF NOT pg_try_advisory_xact_lock({schema}.lock_key('telling', '')) THEN
    RETURN NULL;
  END IF;
  PERFORM pg_notify({schema}.channel(), json_build_object('origin', teller, 'queues',
    CASE WHEN news IS NOT NULL THEN json_build_array(json_build_array(queue, news)) END, 'events', heard)::text);
  RETURN true;
END
$$;
