-- `add_job`, for triggers and psql, and what reads its options. It validates and then calls `add_inside`.
--
-- Locks: as `add_inside`.

-- Adds a job: for triggers and for psql. It answers with the id of the job, and takes the same options as `queue.add`, with the same
-- defaults. The job is part of the transaction it is added in: it can start when that one is committed, and does not exist if
-- it is rolled back.
--
--   SELECT {schema}.add_job('mail', 'send_email', '{"to": "a@example.com"}');
--   SELECT {schema}.add_job('mail', 'send_email', '{"to": "a@example.com"}', '{"delay": "5m", "priority": 3}');
--
-- data: any JSON, up to 1 MiB. options, all of which may be left out:
--   priority         an integer, default 0; higher runs first
--   delay, runAt     not before so long from now (milliseconds, or "250ms", "5s", "1m", "2h", "1d"), or before this instant (text
--                    with a time zone, such as to_jsonb(now()) gives)
--   group            groups of a priority take turns
--   keys             {"tenant": "acme"}: what limits count it by besides its group
--   weights          {"tokens": 1200}
--   maxAttempts      default 5
--   backoff          {"kind": "exponential", "initial": "1s", "max": "10m"} (the default), {"kind": "fixed", "delay": "5s"} or
--                    {"kind": "custom", "name": …}
--   timeout          how long one attempt may take
--   deadline         not to be started, nor to run, after this: so long from now, or an instant
--   keepFor          how long it is kept once it has ended; default: a day, and 30 days if dead
--   idempotencyKey, idempotencyTtl, onDuplicate
--                    one job for this key, for so long (default "1d"); where it is taken: "return" (default) answers with the job
--                    that has it, if type and data are the same, "reject" fails, "replace" takes its place unless it runs
-- An option that is wrong or unknown raises invalid_parameter_value (22023), a key that is taken unique_violation (23505).
CREATE OR REPLACE FUNCTION {schema}.add_job(queue text, type text, data jsonb, options jsonb DEFAULT '{}') RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
  known CONSTANT text[] := ARRAY['priority', 'delay', 'runAt', 'group', 'keys', 'weights', 'maxAttempts', 'backoff', 'timeout',
    'deadline', 'keepFor', 'idempotencyKey', 'idempotencyTtl', 'onDuplicate'];
  id CONSTANT text := gen_random_uuid();
  -- What jsonb writes has spaces in it, which count for nothing.
  kept CONSTANT text := CASE WHEN octet_length(data::text) > 1048576 THEN {schema}.canonical_json(data) ELSE data::text END;
  option record;
  run_at float8;
  due_in float8;
  deadline float8;
  deadline_in float8;
  key text;
  ttl float8;
  duplicate text;
  answer json;
  refused json;
BEGIN
  IF NOT {schema}.text_fits(queue, 200) THEN
    PERFORM {schema}.wrong_option('queue', to_jsonb(queue), 'a string of 1 to 200 characters');
  END IF;
  IF NOT {schema}.text_fits(type, 255) THEN
    PERFORM {schema}.wrong_option('type', to_jsonb(type), 'a string of 1 to 255 characters');
  END IF;
  IF data IS NULL THEN
    PERFORM {schema}.wrong_option('data', NULL, 'a JSON value', 'JSON has a null of its own: ''null''');
  ELSIF jsonb_path_exists(data, 'strict $.**{100 to last} ? (@.type() == "object" || @.type() == "array")') THEN
    PERFORM {schema}.wrong_option('data', data, 'at most 100 levels deep');
  ELSIF jsonb_path_exists(data, 'strict $.** ? (@.type() == "number" && (@ > 1.7976931348623158e308 || @ < -1.7976931348623158e308))') THEN
    PERFORM {schema}.wrong_option('data', data, 'free of numbers that no double holds');
  ELSIF octet_length(kept) > 1048576 THEN
    PERFORM {schema}.wrong_option('data', data, 'at most 1048576 bytes as JSON', 'keep large things elsewhere and pass a reference');
  END IF;
  IF options IS NULL OR jsonb_typeof(options) <> 'object' THEN
    PERFORM {schema}.wrong_option('options', options, 'an object');
  END IF;
  FOR option IN SELECT o.key, o.value FROM jsonb_each(options) o WHERE o.key <> ALL (known) ORDER BY o.key LIMIT 1 LOOP
    PERFORM {schema}.wrong_option(option.key, option.value, 'left out (there is no such option)',
      'known options: ' || array_to_string(known, ', '));
  END LOOP;

  due_in := coalesce({schema}.option_duration('delay', options -> 'delay', false), 0);
  IF options ? 'runAt' THEN
    run_at := {schema}.option_instant(options -> 'runAt');
    IF run_at IS NULL THEN
      PERFORM {schema}.wrong_option('runAt', options -> 'runAt', 'an instant with a time zone, such as "2030-01-31T12:00:00Z"');
    ELSIF options ? 'delay' THEN
      PERFORM {schema}.wrong_option('runAt', options -> 'runAt', 'left out where there is a "delay"');
    END IF;
  END IF;
  IF options ? 'deadline' THEN
    deadline := {schema}.option_instant(options -> 'deadline');
    IF deadline IS NULL THEN
      deadline_in := {schema}.option_duration('deadline', options -> 'deadline', true);
    END IF;
  END IF;
  key := {schema}.option_text('idempotencyKey', options -> 'idempotencyKey', 512);
  ttl := coalesce({schema}.option_duration('idempotencyTtl', options -> 'idempotencyTtl', true), 86400000);
  duplicate := coalesce({schema}.option_text('onDuplicate', options -> 'onDuplicate', 255), 'return');
  IF duplicate NOT IN ('return', 'replace', 'reject') THEN
    PERFORM {schema}.wrong_option('onDuplicate', options -> 'onDuplicate', '"return" or "replace" or "reject"');
  END IF;

  -- No JSON has the separator in it.
  answer := {schema}.add_inside_{version}(json_build_object('ids', id, 'data', kept, 'separator', chr(31), 'kinds', json_build_array(json_build_object(
    'queue', queue, 'type', type, 'due', run_at, 'due_in', due_in,
    'priority', coalesce({schema}.option_integer('priority', options -> 'priority', -2147483647, 2147483647), 0),
    'grp', {schema}.option_text('group', options -> 'group', 255),
    'keys', {schema}.option_keys(options -> 'keys'),
    'weights', {schema}.option_weights(options -> 'weights'),
    'max_attempts', coalesce({schema}.option_integer('maxAttempts', options -> 'maxAttempts', 1, 2147483647), 5),
    'backoff', {schema}.option_backoff(options -> 'backoff'),
    'timeout', {schema}.option_duration('timeout', options -> 'timeout', true),
    'deadline', deadline, 'deadline_in', deadline_in,
    'keep_for', {schema}.option_duration('keepFor', options -> 'keepFor', false))),
    'idempotency', CASE WHEN key IS NOT NULL THEN json_build_array(json_build_object('id', id, 'queue', queue, 'key', key, 'ttl', ttl,
      'on_duplicate', duplicate, 'fingerprint', encode(sha256(convert_to(
        '[' || to_json(type) || ',' || to_json({schema}.canonical_json(data)) || ']', 'UTF8')), 'hex'))) END))::json;
  refused := answer -> 'refused';
  IF refused ->> 'why' = 'key' THEN
    RAISE EXCEPTION 'add_job: the idempotency key "%" belongs to job "%": %', refused ->> 'key', refused ->> 'id',
      refused ->> 'because' USING ERRCODE = 'unique_violation';
  ELSIF refused IS NOT NULL THEN
    PERFORM {schema}.wrong_option('weights.' || (refused ->> 'weight'), (refused ->> 'said')::jsonb,
      'at most ' || (refused ->> 'most'), 'the limit "' || (refused ->> 'rule') || '" never lets more than that start');
  END IF;
  RETURN coalesce(answer -> 'others' -> 0 ->> 1, id);
END
$$;

-- The text of an option of add_job that is a name or a key, of 1 to `longest` characters. NULL: it was left out.
CREATE OR REPLACE FUNCTION {schema}.option_text(option text, value jsonb, longest integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF value IS NOT NULL AND (jsonb_typeof(value) <> 'string' OR NOT {schema}.text_fits(value #>> '{}', longest)) THEN
    PERFORM {schema}.wrong_option(option, value, 'a string of 1 to ' || longest || ' characters');
  END IF;
  RETURN value #>> '{}';
END
$$;

-- The number of an option of add_job that is an integer from `lowest` to `highest`. NULL: it was left out.
CREATE OR REPLACE FUNCTION {schema}.option_integer(option text, value jsonb, lowest bigint, highest bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF value IS NOT NULL AND (jsonb_typeof(value) <> 'number' OR value::numeric <> trunc(value::numeric)
    OR value::numeric < lowest OR value::numeric > highest) THEN
    PERFORM {schema}.wrong_option(option, value, 'an integer from ' || lowest || ' to ' || highest);
  END IF;
  RETURN value::numeric;
END
$$;

-- The milliseconds of an option of add_job that is a length of time: a number of them, or text such as "250ms", "5s", "1m", "2h",
-- "1d". NULL: it was left out. positive: more than 0.
CREATE OR REPLACE FUNCTION {schema}.option_duration(option text, value jsonb, positive boolean) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  parts text[];
  ms float8;
BEGIN
  IF value IS NULL THEN
    RETURN NULL;
  END IF;
  IF jsonb_typeof(value) = 'number' THEN
    -- One that no double holds is too long, whatever it is.
    ms := CASE WHEN value::numeric BETWEEN -1e15 AND 1e15 THEN value::float8 END;
  ELSIF jsonb_typeof(value) = 'string' AND length(value #>> '{}') <= 32 THEN
    parts := regexp_match(value #>> '{}', '^([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)$');
    ms := parts[1]::float8 * CASE parts[2] WHEN 'ms' THEN 1 WHEN 's' THEN 1000 WHEN 'm' THEN 60000 WHEN 'h' THEN 3600000
      WHEN 'd' THEN 86400000 END;
  END IF;
  IF ms IS NULL OR ms < 0 OR ms > 1e15 OR (positive AND ms = 0) THEN
    PERFORM {schema}.wrong_option(option, value, CASE WHEN positive THEN 'a duration > 0' ELSE 'a duration >= 0' END
      || ' (milliseconds, or text such as "250ms", "5s")');
  END IF;
  RETURN ms;
END
$$;

-- The instant (milliseconds since 1970) of an option of add_job that is text with a time zone: what to_jsonb makes of a timestamptz,
-- or an ISO date as toISOString() of JavaScript writes it. NULL: it is none.
CREATE OR REPLACE FUNCTION {schema}.option_instant(value jsonb) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF jsonb_typeof(value) = 'string'
    AND value #>> '{}' ~ '^\d{4,6}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)$' THEN
    RETURN extract(epoch FROM (value #>> '{}')::timestamptz) * 1000;
  END IF;
  RETURN NULL;
EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format THEN
  RETURN NULL;
END
$$;

-- The keys of add_job, as jobs have them: an object of names and texts, 16 at the most and 512 bytes in all. NULL: there are none.
CREATE OR REPLACE FUNCTION {schema}.option_keys(value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  wrong boolean := jsonb_typeof(value) <> 'object';
BEGIN
  IF NOT wrong THEN
    SELECT count(*) > 16 OR octet_length({schema}.canonical_json(option_keys.value)) > 512
      OR coalesce(bool_or(k.key = 'group' OR NOT {schema}.text_fits(k.key, 255) OR jsonb_typeof(k.value) <> 'string' OR NOT {schema}.text_fits(k.value #>> '{}', 255)), false)
    INTO wrong FROM jsonb_each(value) k;
  END IF;
  IF wrong THEN
    PERFORM {schema}.wrong_option('keys', value,
      'an object of at most 16 names (other than "group") and texts, of 512 bytes as JSON in all, such as {"tenant": "acme"}');
  END IF;
  RETURN nullif({schema}.canonical_json(value), '{}');
END
$$;

-- The weights of add_job: an object of names and integers >= 1, 32 at the most. NULL: they were left out.
CREATE OR REPLACE FUNCTION {schema}.option_weights(value jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  wrong boolean := jsonb_typeof(value) <> 'object';
BEGIN
  IF NOT wrong THEN
    SELECT count(*) > 32 OR coalesce(bool_or(NOT {schema}.text_fits(w.key, 255) OR CASE jsonb_typeof(w.value) WHEN 'number' THEN
      w.value::numeric <> trunc(w.value::numeric) OR w.value::numeric NOT BETWEEN 1 AND 4294967295 ELSE true END), false)
    INTO wrong FROM jsonb_each(value) w;
  END IF;
  IF wrong THEN
    PERFORM {schema}.wrong_option('weights', value,
      'an object of at most 32 names and integer weights from 1 to 4294967295, such as {"tokens": 1200}');
  END IF;
  RETURN value;
END
$$;

-- The back-off of add_job, with its defaults, as text: {"kind": "exponential", "initial": …, "max": …} (the default: from 1 s, at most
-- 10 minutes), {"kind": "fixed", "delay": …} or {"kind": "custom", "name": …}.
CREATE OR REPLACE FUNCTION {schema}.option_backoff(value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  kind text := CASE WHEN jsonb_typeof(value) = 'object' THEN value ->> 'kind' END;
  known text[] := CASE kind WHEN 'exponential' THEN '{kind,initial,max}' WHEN 'fixed' THEN '{kind,delay}'
    WHEN 'custom' THEN '{kind,name}' END;
  unknown text;
  initial float8;
  most float8;
BEGIN
  IF value IS NULL THEN
    RETURN '{"kind":"exponential","initial":1000,"max":600000}';
  END IF;
  IF known IS NULL THEN
    PERFORM {schema}.wrong_option('backoff', value, 'an object with "kind": "exponential", "fixed" or "custom"');
  END IF;
  SELECT min(k) INTO unknown FROM jsonb_object_keys(value) k WHERE k <> ALL (known);
  IF unknown IS NOT NULL THEN
    PERFORM {schema}.wrong_option('backoff.' || unknown, value -> unknown, 'left out (there is no such option)',
      'known options: ' || array_to_string(known, ', '));
  END IF;
  IF kind = 'exponential' THEN
    initial := coalesce({schema}.option_duration('backoff.initial', value -> 'initial', true), 1000);
    most := coalesce({schema}.option_duration('backoff.max', value -> 'max', true), 600000);
    IF most < initial THEN
      PERFORM {schema}.wrong_option('backoff.max', value -> 'max', 'at least initial (' || initial || ')');
    END IF;
    RETURN json_build_object('kind', kind, 'initial', initial, 'max', most);
  ELSIF kind = 'fixed' THEN
    IF value -> 'delay' IS NULL THEN
      PERFORM {schema}.wrong_option('backoff.delay', NULL, 'a duration >= 0 (milliseconds, or text such as "250ms", "5s")');
    END IF;
    RETURN json_build_object('kind', kind, 'delay', {schema}.option_duration('backoff.delay', value -> 'delay', false));
  END IF;
  IF value -> 'name' IS NULL THEN
    PERFORM {schema}.wrong_option('backoff.name', NULL, 'a string of 1 to 255 characters');
  END IF;
  RETURN json_build_object('kind', kind, 'name', {schema}.option_text('backoff.name', value -> 'name', 255));
END
$$;

-- Refuses an option or argument of add_job: what it is called, what was received, and what would have been right.
CREATE OR REPLACE FUNCTION {schema}.wrong_option(option text, value jsonb, expected text, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  received text := CASE WHEN value IS NULL THEN 'NULL' WHEN length(value::text) > 60 THEN left(value::text, 60) || '…'
    ELSE value::text END;
BEGIN
  IF hint IS NULL THEN
    RAISE EXCEPTION 'add_job: expected "%" to be %, got %', option, expected, received USING ERRCODE = 'invalid_parameter_value';
  END IF;
  RAISE EXCEPTION 'add_job: expected "%" to be %, got %', option, expected, received
    USING ERRCODE = 'invalid_parameter_value', HINT = wrong_option.hint;
END
$$;

-- Is this a text of 1 to `longest` characters as JavaScript counts them? Characters beyond U+FFFF, which have four bytes of which the
-- first is 240 or more, count twice.
CREATE OR REPLACE FUNCTION {schema}.text_fits(value text, longest integer) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT value IS NOT NULL AND length(value) BETWEEN 1 AND longest AND CASE WHEN octet_length(value) <= longest THEN true ELSE
    length(value) + (SELECT count(*) FROM (SELECT convert_to(value, 'UTF8') AS bytes) v
      CROSS JOIN LATERAL generate_series(0, octet_length(v.bytes) - 1) AS i WHERE get_byte(v.bytes, i) >= 240) <= longest END
$$;

-- The same text for the same value, in whatever order its keys came: as core/json.ts writes it.
CREATE OR REPLACE FUNCTION {schema}.canonical_json(value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  n numeric;
BEGIN
  CASE jsonb_typeof(value)
    WHEN 'object' THEN
      RETURN '{' || coalesce((SELECT string_agg(to_json(e.key) || ':' || {schema}.canonical_json(e.value), ',' ORDER BY e.key COLLATE "C")
        FROM jsonb_each(value) e), '') || '}';
    WHEN 'array' THEN
      RETURN '[' || coalesce((SELECT string_agg({schema}.canonical_json(e.value), ',' ORDER BY e.no)
        FROM jsonb_array_elements(value) WITH ORDINALITY AS e (value, no)), '') || ']';
    WHEN 'string' THEN
      RETURN to_json(value #>> '{}');
    WHEN 'number' THEN
      -- JavaScript writes powers of ten only where a number is very large or small.
      n := value::numeric;
      RETURN CASE WHEN n = 0 THEN '0' WHEN abs(n) >= 1e21 OR abs(n) < 1e-6
        THEN regexp_replace(n::float8::text, 'e([+-])0+', 'e\1') ELSE trim_scale(n::float8::text::numeric)::text END;
    ELSE
      RETURN value::text;
  END CASE;
END
$$;
