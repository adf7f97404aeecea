import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { calledName } from "../../../src/storages/postgres/migrations.ts";
import { opened } from "./client-support.ts";
import { once, temporaryDatabase } from "./server.ts";

const SOURCE = join("src", "storages", "postgres");

/** The functions that are called from outside, as the sources say it: everything else is called by one of them. */
function calledFromOutside(): readonly string[] {
  const files = readdirSync(SOURCE, { recursive: true, encoding: "utf8" }).filter(
    (file) => file.endsWith(".ts") && !file.endsWith("sql.ts"),
  );
  const text = files.map((file) => readFileSync(join(SOURCE, file), "utf8")).join("\n");
  const calls = [...text.matchAll(/\b(?:call|once|step|quietly)(?:<[\s\S]{1,200}?>)?\(\s*"([a-z_]+)"/g)];
  return [...new Set(["add_job", ...calls.map(([, name]) => name!)])].toSorted();
}

describe("names of functions and operators", () => {
  it("names in every function that is called from outside mean those of the server", async () => {
    const names = calledFromOutside();
    expect(names).toEqual(
      expect.arrayContaining([
        "add",
        "claim",
        "heartbeat",
        "leave",
        "list_jobs",
        "listener_heartbeat",
        "notify_others",
        "settle",
      ]),
    );
    expect(names.length).toBeGreaterThan(30);
    const url = await temporaryDatabase();
    await opened(url).setup();
    const pinned = (await once(
      url,
      `SELECT proname AS name FROM pg_proc
        WHERE pronamespace = 'sluice'::regnamespace AND 'search_path=pg_catalog, pg_temp' = ANY (proconfig)`,
    )) as { readonly name: string }[];
    const known = new Set(pinned.map(({ name }) => name));
    expect(names.filter((name) => !known.has(calledName(name)))).toEqual([]);
    // Processes of another version find none of them.
    expect(names.filter((name) => calledName(name) === name)).toEqual(["add_job"]);
  });

  it("names mean those of the server, whatever objects other schemas have under the same names", async () => {
    const url = await temporaryDatabase();
    await opened(url).setup();
    // What fits better than the server's own is taken, wherever it is found.
    const trap = "LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'caught'; END $$";
    await once(
      url,
      `CREATE FUNCTION public.concat_ws(text, bigint, bigint) RETURNS text ${trap};
      CREATE FUNCTION public.json_build_array(text, text) RETURNS json ${trap};
      CREATE FUNCTION public.later(float8, integer) RETURNS float8 ${trap};
      CREATE OPERATOR public.+ (FUNCTION = public.later, LEFTARG = float8, RIGHTARG = integer)`,
    );
    await once(url, "CREATE SCHEMA evil");
    await once(url, `CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text ${trap}`);
    await once(url, `CREATE FUNCTION evil.json_agg(anyelement) RETURNS json ${trap}`);
    for (const path of ["public", "evil,pg_catalog"]) {
      const way = new URL(url);
      way.searchParams.set("options", `-c search_path=${path}`);
      const database = opened(way.href);
      expect(await database.call("listener_heartbeat", "me", true, false, "ear")).toHaveProperty("stamp");
      expect(await database.call("read_rules")).toMatchObject({ stored: [] });
      expect(await database.rows("SELECT origin FROM {schema}.listeners")).toEqual([{ origin: "me" }]);
    }
  });
});
