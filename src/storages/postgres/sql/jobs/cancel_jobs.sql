-- Jobs that have not started are cancelled at once; an active one is asked to stop. Their rows are locked already. tells: somebody
-- wants to hear of it; answers whether events were written.
CREATE OR REPLACE FUNCTION {schema}.cancel_jobs(ids text[], now float8, tells boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  WITH cancelled AS (
    UPDATE {schema}.jobs j SET
      cancel_requested = j.cancel_requested OR j.state = 'active',
      state = CASE WHEN j.state = 'active' THEN 'active' ELSE 'cancelled' END,
      finished_at = CASE WHEN j.state <> 'active' THEN now END,
      delete_at = CASE WHEN j.state <> 'active' THEN now + coalesce(j.keep_for, {schema}.kept_ms('cancelled')) END
    WHERE j.id = ANY (ids)
    RETURNING j.id, j.queue, j.type, j.state
  )
  INSERT INTO {schema}.events (at, event)
  SELECT now, json_build_object('event', 'cancelled', 'queue', c.queue, 'id', c.id, 'type', c.type)
  FROM unnest(ids) WITH ORDINALITY AS i (id, no) JOIN cancelled c ON c.id = i.id
  WHERE tells AND c.state = 'cancelled' ORDER BY i.no;
  RETURN FOUND;
END
$$;
