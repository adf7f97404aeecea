-- Housekeeping, in small steps. Answer: {stalled, deleted, more, woken, everybody, events}.
CREATE OR REPLACE FUNCTION {schema}.sweep() RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off AS $$
DECLARE
  alone boolean := {schema}.many_rules();
  now float8;
  lost record;
  late record;
  again record;
  weighing text[];
  limits {schema}.pruned;
  old record;
  lanes integer;
  arriving boolean;
  holds integer;
  everybody boolean;
BEGIN
  PERFORM {schema}.begin_step(alone);
  weighing := {schema}.weighing();
  SELECT * INTO late FROM {schema}.end_late({schema}.present());
  SELECT * INTO lost FROM {schema}.recover(CASE WHEN NOT alone THEN weighing END);
  everybody := lost.everybody;
  now := {schema}.moment();
  -- Those that have just come back may be too late for another attempt.
  SELECT * INTO again FROM {schema}.end_late(now);
  IF cardinality(late.gone || again.gone) > 0 AND cardinality(weighing) > 0 THEN
    everybody := {schema}.left_lane(late.gone || again.gone) OR everybody;
  END IF;
  limits := {schema}.prune_limits(now);
  holds := {schema}.prune_holds(now);
  arriving := {schema}.sweep_arrivals(now, weighing);
  lanes := {schema}.sweep_lanes(now, 500);
  SELECT * INTO old FROM {schema}.prune_rows(now);
  RETURN json_build_object('stalled', lost.stalled, 'deleted', old.deleted + limits.deleted + holds + lanes,
    'more', old.more OR limits.more OR holds = 500 OR lanes = 500 OR arriving OR lost.stalled = 500 OR late.ended = 1000 OR again.ended = 1000,
    'woken', lost.woken, 'everybody', everybody, 'events', lost.told OR late.told OR again.told);
END
$$;
