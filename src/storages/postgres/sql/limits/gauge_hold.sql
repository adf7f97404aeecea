-- Nothing starts under this limit, for one group or for all, until then. It only ever extends.
CREATE OR REPLACE FUNCTION {schema}.gauge_hold(name text, grp text, until float8, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO {schema}.limits AS l (name, grp, longest, prune_at, pause_until)
    VALUES (gauge_hold.name, gauge_hold.grp, 0, gauge_hold.now, until)
    ON CONFLICT ON CONSTRAINT limits_name_grp_key DO UPDATE SET pause_until = greatest(l.pause_until, excluded.pause_until);
END
$$;
