-- A storage that listens says so, for half a minute from now, and hears itself say it if its ears are open.
--
-- origin: who listens. wants: does it want all events? ends: does it want to hear of jobs that ended? ear: the channel that he alone listens to.
-- The answer: `event`: the newest event there is. `stamp`: changes whenever a job was added or started. `stopping`: active
-- jobs that are asked to stop, some of them at least.
CREATE OR REPLACE FUNCTION {schema}.beat(origin text, wants boolean, ends boolean, ear text) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  DELETE FROM {schema}.listeners WHERE listeners.origin IN (
    SELECT l.origin FROM {schema}.listeners l WHERE l.until < now - 60000 AND l.origin <> beat.origin
    FOR UPDATE SKIP LOCKED);
  INSERT INTO {schema}.listeners AS l (origin, until, events, ends) VALUES (beat.origin, now + 30000, wants, beat.ends)
    ON CONFLICT ON CONSTRAINT listeners_pkey DO UPDATE SET until = excluded.until, events = excluded.events, ends = excluded.ends;
  PERFORM pg_notify(ear, '');
  RETURN json_build_object(
    'event', (SELECT max(seq) FROM {schema}.events),
    'stamp', concat_ws('/', pg_sequence_last_value(pg_get_serial_sequence('{schema}.jobs', 'seq')::regclass),
      pg_sequence_last_value('{schema}.numbers'::regclass)),
    'stopping', (SELECT json_agg(json_build_array(s.queue, s.id)) FROM (
      SELECT j.queue, j.id FROM {schema}.jobs j WHERE j.state = 'active' AND j.cancel_requested LIMIT 100) AS s));
END
$$;
