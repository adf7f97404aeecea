-- What is there to tell about a job that comes to wait: true, news, for nobody of its queue, type, priority and group waits
-- yet, and no claim has said when one could start; false, others do; NULL, nothing, for they wait for a limit. Without a group
-- only the last second is looked at: that is told once too often where others wait for longer, and takes no longer where many
-- have gone (jobs/first_open.sql).
CREATE OR REPLACE FUNCTION {schema}.lane_news(queue text, type text, priority float8, grp text, now float8) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN n.first THEN true WHEN l.blocked_until > lane_news.now THEN NULL ELSE false END
  FROM (SELECT CASE
    WHEN lane_news.grp IS NULL THEN NOT EXISTS (SELECT FROM {schema}.jobs j
      WHERE j.queue = lane_news.queue AND j.type = lane_news.type AND j.priority = lane_news.priority
        AND j.state = 'waiting' AND j.grp IS NULL AND j.due_at > lane_news.now - 1000)
    ELSE NOT EXISTS (SELECT FROM {schema}.jobs j
      WHERE j.queue = lane_news.queue AND j.type = lane_news.type AND j.priority = lane_news.priority
        AND j.state = 'waiting' AND j.grp IS NOT NULL AND j.grp = lane_news.grp)
    END AS first) n
    LEFT JOIN {schema}.lanes l ON l.queue = lane_news.queue AND l.type = lane_news.type
      AND l.priority = lane_news.priority AND l.grp = coalesce(':' || lane_news.grp, '')
$$;
