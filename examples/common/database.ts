import { randomBytes } from "node:crypto";
import pg from "pg";
import { startPostgres } from "../../scripts/postgres-server.ts";

/** Where an example keeps its jobs. Gone when the example ends. */
export interface ExampleDatabase extends AsyncDisposable {
  readonly url: string;
  readonly schema: string;
}

/** A schema of its own on the server that DATABASE_URL names; without it, a server that is started for the example. */
export async function exampleDatabase(): Promise<ExampleDatabase> {
  const given = process.env["DATABASE_URL"];
  const schema = `sluice_example_${randomBytes(4).toString("hex")}`;
  if (given === undefined) {
    const server = await startPostgres();
    return { url: server.url, schema, [Symbol.asyncDispose]: () => server.stop() };
  }
  return {
    url: given,
    schema,
    async [Symbol.asyncDispose]() {
      const client = new pg.Client({ connectionString: given });
      await client.connect();
      await client.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
      await client.end();
    },
  };
}
