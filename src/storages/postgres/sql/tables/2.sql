-- The step from version 1 of the tables to version 2. A new database takes all steps, one after the other, so there is one
-- definition of each version (decision 0032). Until version 2 is released, a change of tables is made here; from then on in 3.sql.
-- Rows of jobs are not written: columns that are added are NULL.

-- What each version has made besides tables: functions and types, which the next one drops. Those of version 1 were not written down.
ALTER TABLE {schema}.migrations ADD COLUMN made text[];
UPDATE {schema}.migrations SET made = '{
    account_save,account_take,add,add_alike,add_job,add_many,add_one,add_rows,add_with_care,added_answer,adopt,any_after,
    any_lanes,any_open,asked_to_stop,beat,begin_step,block_of,blocks_of,bring_back,cancel_jobs,cancel_start,cancel_taken,
    canonical_json,change,change_entry,change_start,channel,charge_more,charge_of,charge_start,claim,claim_alike,claim_open,
    claim_request,claim_room,claim_signs,claim_under,claim_way,claim_weighed,claim_with_care,complete_plainly,confirm,
    confirm_in,confirm_starts,correct_taken,correct_weights,delete_completed,delete_jobs,drop_idle,drop_limit,earliest,
    end_late,end_leases,end_refused,end_start,ended_lease,ended_leases,enter_starts,events_wanted,expected_delay,explain_job,
    find_entry,find_jobs,find_limit,first_blocked,first_open,first_since,forget_starts,free_of,gauge_cancel,gauge_hold,
    gauge_tell,give_back,give_permit,give_slots,give_tokens,give_weights,gone_job,grant_of,group_of,head_of,head_weights,
    heartbeat,heavy_heads,heavy_wait,held_of,hold_alone,hold_limit,hold_limits,hold_singly,ids_in_state,ids_scheduled,
    insert_jobs,insert_missing,is_first_due,is_idle,is_issued,is_news,is_uniform,job_history,job_json,keep_total,
    kept_accounts,kept_ms,lane_grp,lane_news,leave,left_lane,let_in,limit_account,limit_by_id,limit_charge,limit_given,
    limit_meter,limit_quota,limit_room,limit_use,limit_verdict,limit_wait,limits_of,limits_of_grants,limits_of_report,
    limits_of_tokens,list_jobs,listed,lock_blocking,lock_holders,lock_key,lock_keys,lock_leases,lock_limits,lock_queue,
    lock_walked,look_again,look_again_in,look_before_marks,many_rules,marked_types,may_mark,meter_of,meter_used,
    meters_for_all,moment,names_of,names_to_hold,next_due,next_prune,not_added,notify_queues,oldest_waiting,open_account,
    open_lanes,open_limit,open_types,opened_claim,option_backoff,option_duration,option_instant,option_integer,option_text,
    option_weights,others_than,outcomes_of,outlook,overview,passed,passed_many,pick_first,pick_marked,pick_open,present,
    promote_due,prune_holds,prune_limit,prune_limits,prune_rows,pruned,publish,queue_names,quota_of,rate_cancel,rate_clear,
    rate_confirm,rate_count,rate_oldest,rate_pause,rate_paused,rate_record,rate_settle,rate_try,read_backlog,read_events,
    read_limits,read_rule,read_rules,record_named,record_starts,recover,refuse_impossible,release_hold,release_holds,
    release_leases,remember_claim,renew_permits,report,reset_limit,rule_instants,rule_named,rules_for,save_accounts,
    seen_limit,seen_standing,seen_states,set_mark,set_paused,settle,settle_permit,settle_start,settle_total,shared_entry,
    shift_total,show_due,spacing_wait,standing_of,start_jobs,start_place,started_jobs,state_grp,sweep,sweep_arrivals,
    sweep_lanes,take_key,take_permit,take_uniform,take_walked,tell,tell_added,tell_breaker,tell_ended,tell_limit,texts_of,
    unblock_all,unblock_lanes,unblock_like,unblock_ripe,unblock_weighing,use_of,used_of,verdict,waiting_due,waiting_grouped,
    waiting_groups,waiting_jobs,waiting_open,waiting_types,waiting_weights,walk,walk_meters,walk_page,walked,wall,watch,
    way_of,weigh_room,weighing,window_freed,window_used,window_wait,write_log,write_rules,write_walk,wrong_option
  }' WHERE version = 1;

ALTER TABLE {schema}.jobs
  -- While it backs off: the due_at that it takes again when that is over.
  ADD COLUMN first_due_at float8,
  -- Instants as people gave them, by the clock of the server: of a scheduled job when it is due, and its deadline. due_at and
  -- deadline are the same by the clock of the storage as that was then (skew); what seems to have passed is compared with these.
  ADD COLUMN due_wall float8,
  ADD COLUMN deadline_wall float8,
  DROP COLUMN claim;
-- What limits count it by besides its group, as JSON, sorted by name; NULL: nothing.
ALTER TABLE {schema}.jobs ADD COLUMN keys text COLLATE "C";
-- Which job is next of a type, where no lanes are needed?
DROP INDEX {schema}.jobs_open;
CREATE INDEX jobs_open ON {schema}.jobs (queue, type, priority DESC, due_at, seq)
  WHERE state = 'waiting' AND grp IS NULL AND keys IS NULL;
-- Which job is next in a lane? By its keys and group: in_lane, in the same words. What every statement that writes jobs reads anew is short.
DROP INDEX {schema}.jobs_grouped;
CREATE INDEX jobs_lanes ON {schema}.jobs (queue, type, priority DESC,
    (CASE WHEN keys IS NULL THEN ':' || grp ELSE keys || coalesce(':' || grp, '') END), due_at, seq)
  WHERE state = 'waiting' AND coalesce(grp, keys) IS NOT NULL;
-- Which claim started it: an answer that got lost can be asked for again. Below zero: its lease has run out since. That of version 1
-- was a text, and means nothing to others than the process that made the claim.
ALTER TABLE {schema}.jobs ADD COLUMN claim bigint;
-- Whose lease of this claim has run out, and was not followed by another?
CREATE INDEX jobs_stalled ON {schema}.jobs (claim) WHERE claim < 0;

-- Lanes are by keys as well. keys: as jobs say them, '' without. own: the first of the lanes that differ only in their keys; these go by
-- their first jobs: head_at and head_seq, which may be too early and are never too late; 0 in a lane without keys.
--
-- A lane that a key of a limit refuses is blocked: by the limit blocked_by, whose state is blocked_grp. If the job heavy is too heavy for
-- what is left, blocked_until says when it fits; else the lane waits at the gate of the key, and blocked_until is 1e18.
ALTER TABLE {schema}.lanes
  ADD COLUMN keys text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN own bigint,
  ADD COLUMN head_at float8 NOT NULL DEFAULT 0,
  ADD COLUMN head_seq bigint NOT NULL DEFAULT 0,
  ADD COLUMN blocked_grp text COLLATE "C",
  DROP CONSTRAINT lanes_queue_priority_grp_type_key;
UPDATE {schema}.lanes l SET own = l.id,
  -- Of a limit that is gone nothing is waited for.
  blocked_until = CASE WHEN r.name IS NOT NULL THEN l.blocked_until END,
  blocked_grp = CASE WHEN (r.fields).by_group THEN CASE WHEN l.grp = '' THEN '-' ELSE l.grp END ELSE '' END
FROM {schema}.lanes o LEFT JOIN {schema}.rules r ON r.name = o.blocked_by WHERE o.id = l.id;
ALTER TABLE {schema}.lanes ALTER COLUMN own SET NOT NULL, ADD UNIQUE (queue, priority, grp, keys, type);
-- Whose turn is it?
DROP INDEX {schema}.lanes_ready;
CREATE INDEX lanes_ready ON {schema}.lanes (queue, type, priority DESC, turn, own, head_at, head_seq) WHERE ready AND blocked_until IS NULL;
-- Which heavy heads fit again? Which wait for this key?
DROP INDEX {schema}.lanes_blocked;
CREATE INDEX lanes_blocked ON {schema}.lanes (queue, type, blocked_until) WHERE blocked_until IS NOT NULL AND heavy IS NOT NULL;
CREATE INDEX lanes_heavy ON {schema}.lanes (blocked_by, blocked_grp) WHERE blocked_until IS NOT NULL AND heavy IS NOT NULL;
-- Whose turn is it, of the lanes at a gate?
DROP INDEX {schema}.lanes_group;
CREATE INDEX lanes_gate ON {schema}.lanes (blocked_by, blocked_grp, hashtextextended(queue || chr(31) || type, 0), priority DESC, turn, own,
    head_at, head_seq)
  WHERE blocked_until IS NOT NULL AND heavy IS NULL;
-- Which turn holds for lanes that differ only in their keys?
CREATE INDEX lanes_turns ON {schema}.lanes (queue, priority, grp, type, turn DESC) WHERE keys <> '';
-- Which lanes of a group and type have the first jobs?
CREATE INDEX lanes_keyed ON {schema}.lanes (queue, priority, grp, type, head_at, head_seq) WHERE keys <> '' AND ready AND blocked_until IS NULL;

-- Where lanes of one queue and type wait for the same key of a limit: its name and state. It opens and closes as a whole, and the lanes
-- stay: however many they are, claims take the first of them when it is open. until: it is closed until then; 1e18: until something is
-- given back. Rows are written under the lock of the limit.
CREATE TABLE {schema}.gates (
  name text COLLATE "C" NOT NULL,
  grp text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  until float8 NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
-- Version 1 blocked lanes one by one. Those that the same key blocks stand at one gate, which opens when the first of them was to look again.
INSERT INTO {schema}.gates (name, grp, queue, type, until)
  SELECT l.blocked_by, l.blocked_grp, l.queue, l.type, min(l.blocked_until) FROM {schema}.lanes l
  WHERE l.blocked_until IS NOT NULL AND l.heavy IS NULL GROUP BY 1, 2, 3, 4;
UPDATE {schema}.lanes SET blocked_until = 1e18 WHERE blocked_until IS NOT NULL AND heavy IS NULL;
-- Which gate is this? Of queue and type a hash, in the words of place_of: four names are more than an entry of an index may be long.
CREATE UNIQUE INDEX gates_key ON {schema}.gates (name, grp, hashtextextended(queue || chr(31) || type, 0));
-- Which gates are open, and which opens first?
CREATE INDEX gates_until ON {schema}.gates (queue, type, until);

-- Jobs arrive in lanes of keys, too, with or without a group.
ALTER TABLE {schema}.arrivals ALTER COLUMN grp DROP NOT NULL, ADD COLUMN keys text COLLATE "C";

-- What a limit by group is counted by instead: names of keys, where "group" is the group; NULL: the group.
ALTER TYPE {schema}.limit_rule ADD ATTRIBUTE by_keys text[];

-- What version 1 called the version of a rule is its revision; versions and owners are declared since.
UPDATE {schema}.rules SET stored = stored || jsonb_build_object('revision', stored -> 'version', 'version', NULL, 'owners', '[]'::jsonb);
-- Where there never was a rule nothing is looked up about limits.
UPDATE {schema}.meta SET rules = rules + 1 WHERE EXISTS (SELECT FROM {schema}.rules);

-- The highest version that each owner of rules has declared; owners that gave none are not in it.
CREATE TABLE {schema}.limit_owners (
  name text COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL
);

-- How far scans of jobs without a group got, of each priority (pick.sql).
ALTER TABLE {schema}.marks RENAME TO scan_cursors;

-- Slots in use, by the token of a job's start or of a permit.
ALTER TABLE {schema}.holds RENAME TO slots;
ALTER TABLE {schema}.slots RENAME CONSTRAINT holds_pkey TO slots_pkey;
ALTER INDEX {schema}.holds_token RENAME TO slots_token;
ALTER INDEX {schema}.holds_permits RENAME TO slots_permits;
ALTER INDEX {schema}.holds_expired RENAME TO slots_expired;

-- Until when a service wants nothing to start.
ALTER TABLE {schema}.limits RENAME COLUMN pause_until TO held_until;
-- What a service says is remaining of a limit, and until when.
ALTER TABLE {schema}.limits RENAME COLUMN told_left TO remaining;
ALTER TABLE {schema}.limits RENAME COLUMN told_until TO remaining_until;
-- Something was refused since the latest wake-up: slots that are released wake up waiters (wakes_waiters). A permit, or of a limit for all a
-- job: lanes that a limit by group refuses stand at its gates.
ALTER TABLE {schema}.limits ADD COLUMN awaited boolean NOT NULL DEFAULT false;
-- Counts the releases that wake up waiters: by it a listener finds out that it missed one.
CREATE SEQUENCE {schema}.wake_ups;
-- Who waits for its slots without having any, and since when (limits/starved.ts).
ALTER TABLE {schema}.limits ADD COLUMN starved_by text, ADD COLUMN starved_since float8;

-- What was changed about rules (storage/limit-history.ts): the latest.
CREATE TABLE {schema}.limit_changes (
  seq bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  name text COLLATE "C" NOT NULL,
  -- By the clock of the server.
  at_wall float8 NOT NULL,
  change jsonb NOT NULL
);
CREATE INDEX limit_changes_name ON {schema}.limit_changes (name, seq);

-- What is known of steps by their numbers (begin_attempt): which attempt was the latest of those that another one came before;
-- and what was answered, where nothing else tells whether the step was done.
CREATE TABLE {schema}.steps (
  number bigint PRIMARY KEY,
  nth integer NOT NULL,
  answer text,
  until float8 NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
-- Which of them need not be known any more? They come in that order, more or less, so the pages tell.
CREATE INDEX steps_old ON {schema}.steps USING brin (until) WITH (pages_per_range = 8);

-- Workers that have registered: live until then. info: what else they say of themselves (storage/workers.ts), as JSON.
CREATE TABLE {schema}.workers (
  id text COLLATE "C" PRIMARY KEY,
  queue text COLLATE "C" NOT NULL,
  info text NOT NULL,
  since float8 NOT NULL,
  seen_at float8 NOT NULL,
  until float8 NOT NULL
) WITH (fillfactor = 50);

-- Those of processes of version 1 are not told anything any more. ends: it waits for jobs to end.
DELETE FROM {schema}.listeners;
ALTER TABLE {schema}.listeners ADD COLUMN ends boolean NOT NULL;
