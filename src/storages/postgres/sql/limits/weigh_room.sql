-- As `claim_room`, whatever is in the way: of each rule by its verdict, and where several rules share what is kept. `wait` and
-- `blocked_by` are those of the limit that is in the way of one more the longest.
CREATE OR REPLACE FUNCTION {schema}.weigh_room(
  rules {schema}.limit_rule[], now float8, prepare boolean
) RETURNS {schema}.limit_room
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  room {schema}.limit_room;
  rule {schema}.limit_rule;
  meter {schema}.limit_meter;
  account {schema}.limit_account;
  accounts {schema}.limit_account[] := '{}';
  uses {schema}.limit_use[] := '{}';
  names text[] := '{}';
  place integer;
  own float8;
BEGIN
  room.free := 'Infinity';
  room.wait := 0;
  room.unprepared := false;
  room.plain := false;
  room.rules := rules;
  FOREACH rule IN ARRAY rules LOOP
    CONTINUE WHEN rule.name = ANY (names);
    account := {schema}.open_account(rule.name, '');
    now := greatest(now, account.newest, account.latest_at);
    names := names || rule.name;
    accounts := accounts || account;
    uses := uses || (account.id, rule.name, false, false, NULL, NULL, NULL, NULL, NULL, false)::{schema}.limit_use;
  END LOOP;
  room.at := now;
  FOREACH rule IN ARRAY rules LOOP
    place := array_position(names, rule.name);
    meter := {schema}.meter_of(rule, NULL);
    account := {schema}.watch(accounts[place], meter, now, prepare);
    accounts[place] := account;
    uses[place].holds := uses[place].holds OR meter.holds;
    uses[place].spaced := uses[place].spaced OR meter.every_ms IS NOT NULL;
    room.shortest := least(room.shortest, CASE WHEN meter.max IS NOT NULL THEN meter.window_ms END, meter.every_ms);
    uses[place].singly := uses[place].singly OR meter.probes IS NOT NULL;
    meter.used := {schema}.meter_used(account, meter, now);
    room.unprepared := room.unprepared OR coalesce(meter.max IS NOT NULL AND account.longest < meter.window_ms, false);
    room.free := least(room.free, floor({schema}.free_of(meter, account, now)));
    own := {schema}.limit_wait(meter, account, 1, 1, now);
    IF own > room.wait THEN
      room.wait := own;
      room.blocked_by := rule.name;
    END IF;
  END LOOP;
  FOR i IN 1 .. cardinality(accounts) LOOP
    uses[i] := {schema}.use_of(uses[i], accounts[i], now);
  END LOOP;
  room.uses := uses;
  RETURN room;
END
$$;
