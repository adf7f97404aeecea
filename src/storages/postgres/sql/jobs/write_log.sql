-- Writes the log lines of these reports (report.sql; only those of the numbers ns). The latest thousand of a job are kept.
CREATE OR REPLACE FUNCTION {schema}.write_log(reports json, ns integer[], now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  written bigint[];
BEGIN
  WITH lines AS (
    INSERT INTO {schema}.log (job, at, attempt, text)
    SELECT j.seq, now, j.attempt, line.text
    FROM json_to_recordset(reports) AS o (n integer, id text, log json)
    CROSS JOIN LATERAL json_array_elements_text(o.log) WITH ORDINALITY AS line (text, no)
    JOIN {schema}.jobs j ON j.id = o.id
    WHERE o.n = ANY (ns)
    ORDER BY o.n, line.no
    RETURNING job
  )
  SELECT array_agg(DISTINCT l.job) INTO written FROM lines l;
  IF written IS NOT NULL THEN
    -- Who deletes the job knows by this that there is a log.
    UPDATE {schema}.jobs j SET logged = true
    WHERE j.id = ANY (ARRAY(SELECT o.id FROM json_to_recordset(reports) AS o (n integer, id text) WHERE o.n = ANY (ns)))
      AND j.seq = ANY (written) AND NOT j.logged;
    DELETE FROM {schema}.log l USING unnest(written) AS w (job) WHERE l.job = w.job AND l.seq <=
      (SELECT k.seq FROM {schema}.log k WHERE k.job = w.job ORDER BY k.seq DESC OFFSET 1000 LIMIT 1);
  END IF;
END
$$;
