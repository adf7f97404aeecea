-- Sorts the rules: those for all first, then those by group; which of them apply to which type, and where jobs weigh. All types
-- are open, and no lanes of them were read.
--
-- Reads: all_rules, types. Makes: rules and what is known of them, the lists of types, `look`; `unopened`, where there are rules
-- for all.
DECLARE
  rule {schema}.limit_rule;
  by_group {schema}.limit_rule[] := '{}';
BEGIN
  FOREACH rule IN ARRAY all_rules LOOP
    IF rule.by_group THEN
      by_group := by_group || rule;
      shares := shares OR rule.groups IS NOT NULL;
    ELSE
      rules := rules || rule;
    END IF;
  END LOOP;
  all_count := cardinality(rules);
  group_count := cardinality(by_group);
  rule_count := all_count + group_count;
  rules := rules || by_group;
  unopened := all_count > 0;
  FOR r IN 1 .. rule_count LOOP
    weighs[r] := (rules[r]).weight;
  END LOOP;
  FOR k IN 1 .. cardinality(types) LOOP
    t_open[k] := true;
    t_ready[k] := 0;
    t_at[k] := 1;
    t_end[k] := 0;
    t_read[k] := 0;
    t_whole[k] := false;
    look := look || k;
    FOR r IN 1 .. rule_count LOOP
      applies[(k - 1) * rule_count + r] := (rules[r]).types IS NULL OR types[k] = ANY ((rules[r]).types);
    END LOOP;
  END LOOP;
END;
