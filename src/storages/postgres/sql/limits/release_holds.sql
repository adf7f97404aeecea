-- Permits have given back so many slots of these limits each, that were held since these instants.
CREATE OR REPLACE FUNCTION {schema}.release_holds(
  ids bigint[], slots float8[], ats float8[], now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given[] := '{}';
  one {schema}.limit_given;
  kept {schema}.limits;
BEGIN
  FOR i IN 1 .. coalesce(cardinality(ids), 0) LOOP
    SELECT * INTO kept FROM {schema}.limits AS l WHERE l.id = ids[i];
    CONTINUE WHEN NOT FOUND;
    one := {schema}.release_hold(kept, {schema}.rule_named(kept.name), release_holds.slots[i], ARRAY[ats[i]], now);
    IF one.id IS NOT NULL THEN
      given := given || one;
    END IF;
  END LOOP;
  RETURN given;
END
$$;
