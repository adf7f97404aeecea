-- Events, and wake-ups of other processes.
--
-- Locks: none that a step waits for.

-- Registers a storage as a listener for half a minute from now, and notifies its own channel: if the storage receives that, its connection
-- works.
--
-- origin: the storage that listens. wants: does it want all events? ends: does it want to know which jobs ended? own_channel: the channel
-- that no other storage listens to.
-- The answer: `event`: the newest event there is. `stamp`: changes whenever a job was added or started; `releases`: whenever a release woke
-- up what waits for a limit. `stopping`: active jobs that are asked to stop, at least some of them.
CREATE OR REPLACE FUNCTION {schema}.listener_heartbeat_{version}(origin text, wants boolean, ends boolean, own_channel text) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  DELETE FROM {schema}.listeners WHERE listeners.origin IN (
    SELECT l.origin FROM {schema}.listeners l WHERE l.until < now - 60000 AND l.origin <> listener_heartbeat_{version}.origin
    FOR UPDATE SKIP LOCKED);
  INSERT INTO {schema}.listeners AS l (origin, until, events, ends) VALUES (listener_heartbeat_{version}.origin, now + 30000, wants, listener_heartbeat_{version}.ends)
    ON CONFLICT ON CONSTRAINT listeners_pkey DO UPDATE SET until = excluded.until, events = excluded.events, ends = excluded.ends;
  PERFORM pg_notify(own_channel, '');
  RETURN json_build_object(
    'event', (SELECT max(seq) FROM {schema}.events),
    'stamp', concat_ws('/', pg_sequence_last_value(pg_get_serial_sequence('{schema}.jobs', 'seq')::regclass),
      pg_sequence_last_value('{schema}.numbers'::regclass)),
    'releases', pg_sequence_last_value('{schema}.wake_ups'::regclass),
    'stopping', (SELECT json_agg(json_build_array(s.queue, s.id)) FROM (
      SELECT j.queue, j.id FROM {schema}.jobs j WHERE j.state = 'active' AND j.cancel_requested LIMIT 100) AS s));
END
$$;

-- Removes the registration of a storage that does not listen any more.
CREATE OR REPLACE FUNCTION {schema}.leave_{version}(origin text) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  DELETE FROM {schema}.listeners l WHERE l.origin = leave_{version}.origin
$$;

-- Notifies other storages, if any listens. Notifications are hints: a storage that misses one finds out by its poll.
--
-- A transaction that notifies waits for others that do, and holds them up until it has ended: so this is a transaction of its
-- own, after the step, which does not wait for the disk.
--
-- origin: the storage that notifies. hints: the payload (notifier.ts). The answer: does another storage listen?
CREATE OR REPLACE FUNCTION {schema}.notify_others_{version}(origin text, hints text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM {schema}.listeners l WHERE l.origin <> notify_others_{version}.origin AND l.until > {schema}.present()) THEN
    RETURN false;
  END IF;
  PERFORM pg_notify({schema}.channel(), hints);
  RETURN true;
END
$$;

-- Notifies other storages of jobs that this transaction adds, when it is committed and not before, unless another transaction is doing so:
-- all transactions that notify wait for each other until the commit is on disk. So one may at a time, and none waits for it.
--
-- teller: the storage that adds; NULL: it does not notify here. listened: is there another listener? wake: as `wakes` says. events: some
-- were written. The answer: others were notified; NULL: that is to be done afterwards (notify_others).
CREATE OR REPLACE FUNCTION {schema}.notify_added(teller text, listened boolean, queue text, wake boolean, events boolean) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT CASE
    -- A listener that is not registered yet may be so by the commit.
    WHEN teller IS NULL OR (wake IS NULL AND NOT events) OR listened IS NOT TRUE THEN NULL
    -- Postgres bounds a notification in bytes.
    WHEN octet_length(queue) > 1000 OR NOT pg_try_advisory_xact_lock({schema}.lock_key('telling', '')) THEN NULL
    ELSE pg_notify({schema}.channel(), json_build_object('origin', teller, 'queues',
      CASE WHEN wake IS NOT NULL THEN json_build_array(json_build_array(queue, wake)) END, 'events', events)::text) IS NOT NULL
    END
$$;

-- Notifies all listeners that jobs were added to these queues, when the transaction is committed and not before: for jobs that are added
-- in a transaction of the user. wake: does it wake up workers that a limit blocks, too?
CREATE OR REPLACE FUNCTION {schema}.notify_queues(queues text[], wake boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now float8 := {schema}.present();
  hints text;
BEGIN
  IF NOT EXISTS (SELECT FROM {schema}.listeners l WHERE l.until > now) THEN
    RETURN;
  END IF;
  SELECT json_build_object('queues', json_agg(json_build_array(queue, wake)), 'events', {schema}.events_wanted(now))
    INTO hints FROM (SELECT DISTINCT unnest(queues) AS queue) AS q;
  -- Postgres bounds a notification in bytes.
  IF octet_length(hints) > 7900 THEN
    hints := json_build_object('wakeAll', true, 'events', {schema}.events_wanted(now));
  END IF;
  PERFORM pg_notify({schema}.channel(), hints);
END
$$;

-- The channel on which storages notify each other.
CREATE OR REPLACE FUNCTION {schema}.channel() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT 'sluice:' || btrim('{schema}', '"')
$$;

-- Writes an event that no step writes by itself, if a listener wants events.
CREATE OR REPLACE FUNCTION {schema}.publish_{version}(event text) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  IF NOT {schema}.events_wanted(now) THEN
    RETURN json_build_object('events', false);
  END IF;
  INSERT INTO {schema}.events (at, event) VALUES (now, publish_{version}.event);
  RETURN json_build_object('events', true);
END
$$;

-- Events after a number, in order, so many at most, with so many bytes, but at least one; and those in gaps before it.
-- gaps: [{first, last}].
CREATE OR REPLACE FUNCTION {schema}.read_events_{version}(newest bigint, gaps json, most int, bytes float8) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(json_agg(json_build_object('seq', found.seq, 'event', found.event) ORDER BY found.seq), '[]') FROM (
    SELECT e.seq, e.event FROM (
      SELECT n.seq, n.event, row_number() OVER (ORDER BY n.seq) AS no, sum(octet_length(n.event)) OVER (ORDER BY n.seq) AS total
      FROM (SELECT e.seq, e.event FROM {schema}.events e WHERE e.seq > newest ORDER BY e.seq LIMIT most) n
    ) e WHERE e.no = 1 OR e.total <= bytes
    UNION ALL
    (SELECT e.seq, e.event FROM json_to_recordset(gaps) AS gap (first bigint, last bigint)
      JOIN {schema}.events e ON e.seq BETWEEN gap.first AND gap.last)
  ) AS found
$$;

-- Writes one event for all these jobs, if a listener waits for jobs to end: they may have. Answers whether it was written.
CREATE OR REPLACE FUNCTION {schema}.publish_ends(ids text[], now float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM {schema}.listeners WHERE ends AND until > now) THEN
    RETURN false;
  END IF;
  INSERT INTO {schema}.events (at, event) VALUES (now, json_build_object('event', 'ended', 'ids', to_json(ids)));
  RETURN true;
END
$$;

-- Which of these jobs are active and asked to stop: [[queue, id]]. A hint that they are is not enough to stop them.
CREATE OR REPLACE FUNCTION {schema}.asked_to_stop_{version}(ids json) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(json_agg(json_build_array(j.queue, j.id)), '[]')
  FROM (SELECT DISTINCT json_array_elements_text(ids) AS id) AS hinted
  JOIN {schema}.jobs j ON j.id = hinted.id
  WHERE j.state = 'active' AND j.cancel_requested
$$;

-- Does a listener want all events? or_ends: or wait for jobs to end? It finds that in the events, too.
CREATE OR REPLACE FUNCTION {schema}.events_wanted(now float8, or_ends boolean DEFAULT false) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM {schema}.listeners WHERE (events OR (or_ends AND ends)) AND until > now)
$$;
