-- Were so many entries passed, since there were `before` (jobs/passed.sql), that looks should begin at a mark, or at another one? 5,000
-- take some milliseconds; where the server can clean up it does not come to that. To move a mark costs little.
CREATE OR REPLACE FUNCTION {schema}.passed_many(before bigint, marked boolean) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT {schema}.passed() - before > CASE WHEN marked THEN 1000 ELSE 5000 END
$$;
