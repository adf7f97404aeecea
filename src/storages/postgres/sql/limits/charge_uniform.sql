-- Writes down `count` starts that take one of each key, with tokens from `first` on. Answers what is kept of that with each job, and when
-- it is to be confirmed (NULL: never).
--
-- keys, ttl, began, now: as charge_keys.
CREATE OR REPLACE FUNCTION {schema}.charge_uniform(
  keys {schema}.claim_keys, count integer, first bigint, ttl float8, began float8, now float8, OUT taken jsonb, OUT confirm_in float8
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  starts integer[] := array_fill(0, ARRAY[cardinality(keys.states)]);
  slots float8[] := starts;
  -- Probes are held one by one: a breaker counts those of a time.
  singly boolean[] := starts::boolean[];
  charged record;
BEGIN
  FOR k IN 1 .. cardinality(keys.states) LOOP
    starts[keys.states[k]] := count;
    IF keys.holds[k] THEN
      slots[keys.states[k]] := count;
      singly[keys.states[k]] := singly[keys.states[k]] OR NOT keys.alike[k];
    END IF;
  END LOOP;
  SELECT * INTO charged FROM {schema}.charge_keys(keys, starts, starts, slots, first, ttl, began, now);
  confirm_in := charged.confirm_in;
  INSERT INTO {schema}.holds (limit_id, token, slots, at, n)
    SELECT k.id, -first, count, now, count FROM unnest(charged.ids, slots, singly) AS k (id, slots, singly) WHERE k.slots > 0 AND NOT k.singly
    UNION ALL
    SELECT k.id, token, 1, now, 1 FROM unnest(charged.ids, slots, singly) AS k (id, slots, singly)
      CROSS JOIN generate_series(first, first + count - 1) AS token WHERE k.slots > 0 AND k.singly;
  SELECT concat('[', string_agg(concat('[', k.id, CASE WHEN k.entry <> 0 THEN ',' || k.entry END, ']'), ',' ORDER BY k.place), ']')
    INTO taken FROM unnest(charged.ids, charged.entries, starts) WITH ORDINALITY AS k (id, entry, starts, place) WHERE k.starts > 0;
END
$$;

-- How many starts that take one of each key fit now.
CREATE OR REPLACE FUNCTION {schema}.available_starts(keys {schema}.claim_keys) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT greatest(0, min(CASE WHEN k.closed OR k.max < 1 OR k.concurrency < 1 THEN 0 ELSE floor(least(k.weights, k.slots, k.starts)) END))
  FROM unnest(keys.closed, keys.maxima, keys.concurrency, keys.weights, keys.slots, keys.starts)
    AS k (closed, max, concurrency, weights, slots, starts)
$$;

-- How long one more start that takes one of each key has to wait (0: it may start), and for which limit the longest. What the claim has
-- started, `count` of them, is written.
CREATE OR REPLACE FUNCTION {schema}.next_refusal(
  keys {schema}.claim_keys, rules {schema}.limit_rule[], count integer, now float8, OUT wait float8, OUT blocked_by text
)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  own float8;
BEGIN
  wait := 0;
  FOR k IN 1 .. cardinality(keys.states) LOOP
    CONTINUE WHEN NOT keys.closed[k] AND (keys.maxima[k] >= 1) IS NOT FALSE AND (keys.concurrency[k] >= 1) IS NOT FALSE
      AND least(keys.weights[k], keys.slots[k], keys.starts[k]) - count >= 1;
    own := {schema}.refusal_wait(rules[keys.rules[k]], NULL, 1, 1, 0, 0, 0, NULL, now);
    IF own > wait THEN
      wait := own;
      blocked_by := keys.names[k];
    END IF;
  END LOOP;
END
$$;
