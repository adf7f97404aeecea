-- Keeps the limits that a claim brings along, so that people can be told what jobs of its queue wait for. Once a day it is said
-- again, as long as there are claims. Where workers bring different ones along, the latest word of a second ago will do: nobody
-- waits for another because of it.
CREATE OR REPLACE FUNCTION {schema}.remember_claim(queue text, limits jsonb, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  seen record;
BEGIN
  SELECT c.limits, c.at INTO seen FROM {schema}.claims c WHERE c.queue = remember_claim.queue;
  IF NOT FOUND THEN
    IF limits <> '[]' THEN
      INSERT INTO {schema}.claims (queue, limits, at) VALUES (remember_claim.queue, remember_claim.limits, now)
      ON CONFLICT DO NOTHING;
    END IF;
    RETURN;
  END IF;
  IF (seen.limits = remember_claim.limits AND limits = '[]')
    OR now - seen.at < (CASE WHEN seen.limits = remember_claim.limits THEN 86400000 ELSE 1000 END) THEN
    RETURN;
  END IF;
  PERFORM FROM {schema}.claims c WHERE c.queue = remember_claim.queue FOR UPDATE SKIP LOCKED;
  IF FOUND THEN
    UPDATE {schema}.claims c SET limits = remember_claim.limits, at = now WHERE c.queue = remember_claim.queue;
  END IF;
END
$$;
