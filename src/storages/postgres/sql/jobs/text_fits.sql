-- Is this a text of 1 to `longest` characters as JavaScript counts them? Characters beyond U+FFFF, which have four bytes of which the
-- first is 240 or more, count twice.
CREATE OR REPLACE FUNCTION {schema}.text_fits(value text, longest integer) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT value IS NOT NULL AND length(value) BETWEEN 1 AND longest AND CASE WHEN octet_length(value) <= longest THEN true ELSE
    length(value) + (SELECT count(*) FROM (SELECT convert_to(value, 'UTF8') AS bytes) v
      CROSS JOIN LATERAL generate_series(0, octet_length(v.bytes) - 1) AS i WHERE get_byte(v.bytes, i) >= 240) <= longest END
$$;
