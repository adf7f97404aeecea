-- What is kept of a limit for a job that waits (limits/seen_limit.sql), and how long those are waited for who wait for the
-- limit already and come before it (`behind`; NULL: until something is given back).
--
-- own: the job. lane: its lane, as standing_of says it. first: what the first of the lane weighs. ahead: how many
-- come before it.
CREATE OR REPLACE FUNCTION {schema}.seen_standing(
  rule {schema}.limit_rule, own {schema}.jobs, lane jsonb, first jsonb, ahead float8, at float8
) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  meter {schema}.limit_meter := {schema}.meter_of(rule, CASE WHEN rule.by_group THEN own.grp END);
  state_grp text := {schema}.state_grp(rule.by_group, own.grp);
  more float8 := greatest(({schema}.charge_of(meter, own.weights)).weight, ({schema}.charge_of(meter, first)).weight);
  seen jsonb := {schema}.seen_limit(rule.name, state_grp, meter.window_ms, meter.max, more, ahead, at);
  behind float8 := 0;
BEGIN
  IF rule.weight IS NOT NULL THEN
    behind := {schema}.heavy_wait(rule.name, CASE WHEN rule.by_group THEN {schema}.lane_grp(state_grp) END, own.priority,
      coalesce((lane ->> 'id')::bigint, 0),
      CASE WHEN lane ->> 'heavy' IS NOT NULL AND lane ->> 'by' = rule.name THEN (lane ->> 'since')::float8 ELSE 'Infinity' END,
      (seen ->> 'now')::float8, true);
  END IF;
  RETURN jsonb_build_object('seen', seen, 'behind', nullif(behind, 'Infinity'));
END
$$;
