-- What is answered where all jobs were added, which are of one queue (jobs/add.sql). news: NULL, there is nothing to wake anybody for.
CREATE OR REPLACE FUNCTION {schema}.added_answer(queue text, news boolean, heard boolean, told boolean) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT json_build_object('woken', CASE WHEN news IS NOT NULL THEN json_build_array(json_build_array(queue, news)) END,
    'events', heard, 'told', told)::text
$$;
