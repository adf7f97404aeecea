-- Tells whoever listens that there is something in these queues, when the transaction is committed and not before: for jobs
-- that are added inside somebody else's. news: as in the contract, for those whom a limit keeps back.
CREATE OR REPLACE FUNCTION {schema}.notify_queues(queues text[], news boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now float8 := {schema}.present();
  told text;
BEGIN
  IF NOT EXISTS (SELECT FROM {schema}.listeners l WHERE l.until > now) THEN
    RETURN;
  END IF;
  SELECT json_build_object('queues', json_agg(json_build_array(queue, news)), 'events', {schema}.events_wanted(now))
    INTO told FROM (SELECT DISTINCT unnest(queues) AS queue) AS q;
  -- There is a bound to what can be said at once.
  IF octet_length(told) > 7900 THEN
    told := json_build_object('everybody', true, 'events', {schema}.events_wanted(now));
  END IF;
  PERFORM pg_notify({schema}.channel(), told);
END
$$;
