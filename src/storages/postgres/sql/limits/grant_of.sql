-- What is to be confirmed of the claim that drew this number, as opened_claim says it; NULL: nothing, or not any more. For a claim
-- whose answer got lost.
CREATE OR REPLACE FUNCTION {schema}.grant_of(number bigint) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT json_build_array(number, {schema}.confirm_in(min(least(l.window_ms, (r.fields).window_ms, (r.fields).every_ms))))
  FROM {schema}.starts s JOIN {schema}.limits l ON l.id = s.limit_id LEFT JOIN {schema}.rules r ON r.name = l.name
  WHERE s.claim = number HAVING count(*) > 0
$$;
