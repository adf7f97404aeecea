import pg from "pg";
import { inject, onTestFinished } from "vitest";

let asked: Promise<string> | undefined;

/** The URL of the server that all tests of a run share, of its database `postgres`. */
export function sharedServer(): Promise<string> {
  asked ??= fetch(inject("postgresDesk")).then(async (answer) => {
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    return text;
  });
  return asked;
}

let made = 0;

/** A new database on the shared server, and how to delete it. */
export async function createDatabase(): Promise<{ readonly url: string; readonly drop: () => Promise<void> }> {
  const server = await sharedServer();
  made += 1;
  const name = `test_${process.pid}_${process.hrtime.bigint()}_${made}`;
  await once(server, `CREATE DATABASE ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return { url: url.href, drop: () => dropDatabase(server, name) };
}

/** Waits until the connections that were ended are gone, and ends those that the test has left open. */
async function dropDatabase(server: string, name: string): Promise<void> {
  try {
    await once(server, `DROP DATABASE ${name}`);
  } catch (error) {
    const inUse = (error as { readonly code?: unknown }).code === "55006";
    if (!inUse) throw error;
    await once(server, `DROP DATABASE ${name} WITH (FORCE)`);
  }
}

/** A database that is gone after the test. */
export async function temporaryDatabase(): Promise<string> {
  const { url, drop } = await createDatabase();
  onTestFinished(drop);
  return url;
}

/** A statement on a connection of its own. */
export async function once(url: string, text: string, values: readonly unknown[] = []): Promise<readonly unknown[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query(text, [...values]);
    return rows as readonly unknown[];
  } finally {
    await client.end();
  }
}
