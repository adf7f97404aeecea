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
  known CONSTANT text[] := ARRAY['priority', 'delay', 'runAt', 'group', 'weights', 'maxAttempts', 'backoff', 'timeout',
    'deadline', 'keepFor', 'idempotencyKey', 'idempotencyTtl', 'onDuplicate'];
  id CONSTANT text := gen_random_uuid();
  -- What jsonb writes has spaces in it, which count for nothing.
  kept CONSTANT text := CASE WHEN octet_length(data::text) > 1048576 THEN {schema}.canonical_json(data) ELSE data::text END;
  option record;
  run_at float8;
  due_in float8;
  deadline float8;
  deadline_in float8;
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
  duplicate := coalesce({schema}.option_text('onDuplicate', options -> 'onDuplicate', 255), 'return');
  IF duplicate NOT IN ('return', 'replace', 'reject') THEN
    PERFORM {schema}.wrong_option('onDuplicate', options -> 'onDuplicate', '"return" or "replace" or "reject"');
  END IF;

  answer := {schema}.add(json_build_array(json_strip_nulls(json_build_object(
    'id', id, 'queue', queue, 'type', type, 'data', kept, 'due', run_at, 'due_in', due_in,
    'priority', coalesce({schema}.option_integer('priority', options -> 'priority', -2147483647, 2147483647), 0),
    'grp', {schema}.option_text('group', options -> 'group', 255),
    'weights', {schema}.option_weights(options -> 'weights'),
    'max_attempts', coalesce({schema}.option_integer('maxAttempts', options -> 'maxAttempts', 1, 2147483647), 5),
    'backoff', {schema}.option_backoff(options -> 'backoff'),
    'timeout', {schema}.option_duration('timeout', options -> 'timeout', true),
    'deadline', deadline, 'deadline_in', deadline_in,
    'keep_for', {schema}.option_duration('keepFor', options -> 'keepFor', false),
    'key', {schema}.option_text('idempotencyKey', options -> 'idempotencyKey', 512),
    'ttl', coalesce({schema}.option_duration('idempotencyTtl', options -> 'idempotencyTtl', true), 86400000),
    'on_duplicate', duplicate,
    'fingerprint', CASE WHEN options ? 'idempotencyKey' THEN encode(sha256(convert_to(
      '[' || to_json(type) || ',' || to_json({schema}.canonical_json(data)) || ']', 'UTF8')), 'hex') END))), true)::json;
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
