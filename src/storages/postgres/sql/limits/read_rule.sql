-- A rule, taken out of its JSON (LimitRule in limits/rule.ts).
CREATE OR REPLACE FUNCTION {schema}.read_rule(rule jsonb) RETURNS {schema}.limit_rule
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  read {schema}.limit_rule;
  quota jsonb := rule -> 'quota';
  breaker jsonb := nullif(rule -> 'breaker', 'null');
BEGIN
  read.name := rule ->> 'name';
  read.by_group := coalesce((rule ->> 'byGroup')::boolean, false);
  read.types := {schema}.texts_of(rule -> 'types');
  read.queues := {schema}.texts_of(rule -> 'queues');
  read.max := (quota ->> 'max')::float8;
  read.window_ms := (quota ->> 'windowMs')::float8;
  read.concurrency := (quota ->> 'concurrency')::float8;
  read.every_ms := (quota ->> 'everyMs')::float8;
  read.groups := nullif(nullif(rule -> 'groups', '{}'), 'null');
  read.weight := rule ->> 'weight';
  read.estimate := coalesce((rule ->> 'estimate')::float8, 1);
  read.paused := coalesce((rule ->> 'paused')::boolean, false);
  read.held_until := (rule ->> 'heldUntil')::float8;
  read.blind_until := (rule ->> 'blindUntil')::float8;
  IF breaker IS NOT NULL THEN
    read.failures := (breaker ->> 'failures')::integer;
    read.open_ms := (breaker ->> 'openMs')::float8;
    read.probes := (breaker ->> 'probes')::integer;
    read.kinds := {schema}.texts_of(breaker -> 'kinds');
  END IF;
  RETURN read;
END
$$;
