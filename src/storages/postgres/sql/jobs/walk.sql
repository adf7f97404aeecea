-- Which jobs a claim starts, and what is in the way of others: the walk of planner/plan-claim.ts over lanes, asking as in
-- planner/claim-limits.ts. By priority, then by turns, then as they came due, each with all of its limits or not at all; what a
-- limit keeps back is passed over whole. Lanes, first jobs and limits are read together, as many as may be needed, and walked
-- over in lists; nothing is written.
--
-- queue_name: of which queue. asked: the types that the claim asks for; NULL: any. types: those of them that may start.
-- all_rules: what they run under. want: how many may start; bytes: with so much data, but one in any case. without: jobs that cannot be had. ttl: how soon they are called; NULL: at
-- once. now_at: now.
--
-- The steps stand in walk/, one file each, and become one function with this one: what is declared here is too much to be handed
-- from one function to another. Lists of one letter belong together, and have one entry for each of its kind. Everything is known
-- by its place in them: a `lane` is one in the lists of l.
CREATE OR REPLACE FUNCTION {schema}.walk(
  queue_name text, asked text[], types text[], all_rules {schema}.limit_rule[], want integer, bytes float8, without bigint[], ttl float8,
  now_at float8
) RETURNS {schema}.walked
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- So many lanes are blocked, and jobs refused for good, before a claim ends: then another one goes on.
  patience CONSTANT integer := 1000;
  -- So much is read at once, at most.
  page CONSTANT integer := 1000;
  -- Turns of this claim come after all others.
  later CONSTANT bigint := 4000000000000000000;
  forever CONSTANT float8 := 'Infinity';
  now float8 := now_at;
  started integer := 0;
  started_bytes float8 := 0;
  vain integer := 0;
  more boolean := false;
  -- Rules: those for all, then those by group. Does one apply to a type (rules of the first type, of the second, ...)? What jobs
  -- weigh in under it; NULL: nothing. Has a group more starts in a turn than another?
  rules {schema}.limit_rule[] := '{}';
  all_count integer; group_count integer; rule_count integer;
  applies boolean[]; weighs text[];
  shares boolean := false;
  -- Types: may they be taken from, how many lanes of them may be, what closed them, which of their blocked lanes has room first.
  t_open boolean[]; t_ready integer[];
  t_closed float8[]; t_closed_by integer[]; closed integer[] := '{}';
  t_blocked float8[]; t_blocked_by integer[]; blocked integer[] := '{}';
  -- Lanes of a type in the order of their turns, a part of them: from where to where in `line`; how many were read, and whether
  -- these are all. Which types are looked at, and of which more lanes are needed.
  t_at integer[]; t_end integer[]; t_read integer[]; t_whole boolean[];
  line integer[]; line_count integer := 0;
  look integer[] := '{}'; need integer[] := '{}';
  -- Lanes, those of a unit side by side: as they are stored; may they be taken from (so many may), and have they been; from where
  -- to where in j their jobs are (to 0: none was read), and whether these are all.
  l_id bigint[] := '{}'; l_type integer[]; l_priority float8[]; l_grp text[]; l_turn bigint[];
  l_heavy bigint[]; l_by text[]; l_since float8[]; l_unit integer[];
  l_ready boolean[]; ready_count integer := 0; l_gave boolean[];
  l_first integer[]; l_last integer[]; l_whole boolean[];
  -- Units: their lanes; starts since their turn; the start with which they had it; were they served at all? Which group is it?
  unit_count integer := 0;
  u_from integer[]; u_to integer[]; u_served integer[]; u_turn integer[]; u_touched boolean[]; u_group integer[];
  groups text[] := '{}';
  -- Lanes that had their turn in this claim, in order, those of one priority a chain: its first, its last, and where it stands.
  served_count integer := 0; s_lane integer[]; s_turn bigint[]; s_next integer[];
  level_count integer := 0; v_priority float8[]; v_first integer[]; v_last integer[]; v_at integer[];
  -- Jobs that were read, those of a lane side by side.
  job_count integer := 0; j_seq bigint[]; j_due float8[]; j_place tid[]; j_weights jsonb[]; j_bytes integer[];
  -- Meters: of each rule for all, then, group by group, of each rule by group. How long a head of the group waits for it already.
  -- Where only numbers matter (m_plain): how much fits, what is used and held of that.
  unopened boolean; new_groups text[];
  meters {schema}.limit_meter[] := '{}'; accounts {schema}.limit_account[] := '{}';
  m_closed float8[];
  m_plain boolean[]; m_account integer[]; m_max float8[]; m_used float8[]; m_slots float8[];
  a_taken float8[]; a_held float8[];
  -- Heavy heads that wait, those for one meter a chain.
  heavy_count integer := 0; m_heavy integer[];
  h_next integer[]; h_lane bigint[]; h_priority float8[]; h_until float8[]; h_since float8[];
  -- What keeps jobs back, and how long: what will be first to let one start is told.
  kept_waits float8[] := '{}'; kept_by integer[] := '{}';
  -- What comes of it (see the type).
  d_places tid[] := '{}'; d_seqs bigint[] := '{}';
  d_use_starts integer[] := '{}'; d_use_meters integer[] := '{}'; d_use_weights float8[] := '{}'; d_use_slots float8[] := '{}';
  d_emptied bigint[] := '{}';
  d_blocked bigint[] := '{}'; d_blocked_waits float8[] := '{}'; d_blocked_names text[] := '{}'; d_blocked_heavy bigint[] := '{}';
  d_refused tid[] := '{}'; d_refused_seqs bigint[] := '{}'; d_refused_meters integer[] := '{}';
  d_refused_weights float8[] := '{}';
  d_freed_names text[] := '{}'; d_freed_grps text[] := '{}';
  -- Whose turn it is; of its unit the lane whose head starts next, its type and that head.
  next_lane integer; unit integer; lane integer; kind integer; head integer;
  -- May it start? What it takes under each rule; what is in its way the longest (0: nothing) and with how much of it; can it never
  -- start, or is only its group in the way? How many starts a turn has.
  c_meter integer[]; c_weight float8[]; c_slots float8[];
  keeper integer; longest float8; kept_weight float8; kept_slots float8; never boolean; for_one_group boolean;
  share integer;
  -- Which of the closed types is asked again, when nothing starts any more.
  closing integer := 0;
  -- What is at hand.
  at integer; meter {schema}.limit_meter; account {schema}.limit_account;
BEGIN
  -- {part walk/sort_rules}

  <<walking>>
  LOOP
    IF cardinality(need) > 0 THEN
      -- {part walk/read_lanes}
    END IF;
    IF unopened THEN
      -- {part walk/open_meters}
    END IF;

    EXIT walking WHEN vain >= patience;
    -- {part walk/next_lane}
    CONTINUE walking WHEN cardinality(need) > 0;
    IF next_lane = 0 THEN
      -- Nothing starts any more: what was taken since a job was refused may keep it back for longer. So the first of each type
      -- that is closed is asked again.
      closing := closing + 1;
      EXIT walking WHEN closing > cardinality(closed);
      t_open := array_fill(false, ARRAY[cardinality(types)]);
      t_open[closed[closing]] := true;
      look := ARRAY[closed[closing]];
      v_at := v_first;
      CONTINUE walking;
    END IF;
    -- {part walk/earliest}
    CONTINUE walking WHEN lane = 0;

    -- {part walk/ask}
    IF closing > 0 AND NOT never AND NOT for_one_group THEN
      -- It is kept back as before, if by nothing else.
      kept_waits := kept_waits || CASE WHEN keeper = 0 THEN t_closed[kind] ELSE longest END;
      kept_by := kept_by || CASE WHEN keeper = 0 THEN t_closed_by[kind] ELSE keeper END;
      t_open[kind] := false;
    ELSIF keeper = 0 THEN
      more := started >= want OR (started > 0 AND started_bytes + j_bytes[head] > bytes);
      EXIT walking WHEN more;
      -- {part walk/leave_lane}
      -- {part walk/start}
      IF NOT shares OR u_served[unit] >= share THEN
        -- {part walk/pass_turn}
      END IF;
    ELSIF never THEN
      -- {part walk/leave_lane}
      -- {part walk/refuse}
    ELSE
      -- {part walk/pass_over}
    END IF;
  END LOOP walking;

  -- {part walk/answer}
END
$$;
