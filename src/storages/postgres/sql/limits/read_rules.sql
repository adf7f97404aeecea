-- All rules, as they are stored, the number of the book they are in, and the versions that owners have declared.
CREATE OR REPLACE FUNCTION {schema}.read_rules_{version}() RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT json_build_object('number', m.rules, 'stored',
    (SELECT coalesce(json_agg(json_build_array(r.name, r.stored)), '[]') FROM {schema}.rules r), 'owners',
    (SELECT coalesce(json_agg(json_build_array(o.name, o.version)), '[]') FROM {schema}.limit_owners o))
  FROM {schema}.meta m
$$;
