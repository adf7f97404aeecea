-- Tells other storages what is new, if there are any that listen. Hints, no more: who misses one finds out by himself.
--
-- A transaction that notifies waits for others that do, and holds them up until it has ended: so this is a transaction of its
-- own, after the step, which does not wait for the disk.
--
-- origin: who tells. news: what (telling.ts). The answer: does anybody listen?
CREATE OR REPLACE FUNCTION {schema}.tell(origin text, news text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM {schema}.listeners l WHERE l.origin <> tell.origin AND l.until > {schema}.present()) THEN
    RETURN false;
  END IF;
  PERFORM pg_notify({schema}.channel(), news);
  RETURN true;
END
$$;
