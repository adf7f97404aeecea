import type { Clock } from "../../core/clock.ts";
import type { Random } from "../../core/random.ts";
import { Connections } from "./connections.ts";
import type { OwnClient, PostgresExecutor, PostgresPool, PreparingClient, SqlValue } from "./driver.ts";
import { closedError, kindOf, sqlStateOf, WRONG_ISOLATION } from "./failures.ts";
import { calledName, prepare, type Run, SCHEMA_VERSION, whyMissing } from "./migrations.ts";
import { OpenCalls } from "./open-calls.ts";
import { type CallOptions, RetryPolicy } from "./retry-policy.ts";
import type { StepHints } from "./step-hints.ts";
import { UnknownOutcomes } from "./unknown-outcomes.ts";

/** Calls the functions of the storage. */
export interface Caller {
  /** Calls one of our SQL functions: one round trip, one transaction. Returns the parsed answer. */
  call<T>(name: string, ...args: readonly SqlValue[]): Promise<T>;
}

/**
 * How a step is prevented from being committed twice, where its first attempt was cut off:
 *
 * - `kept`: a repeat waits for attempts before it and fences them off, and the answer is kept: if an earlier attempt was committed, the
 *   repeat returns that answer.
 * - `fenced`: the same, but the answer is not kept: the function finds out by itself what it has done before (`again`), or doing it twice
 *   in a row makes no difference.
 * - `itself`: as `fenced`; the function gets its number as an argument, and begins its first attempt by itself, which costs less.
 * - `known`: neither. The function, and an attempt that arrives late, see from the stored rows that the step was committed.
 */
export type Mark = "kept" | "fenced" | "itself" | "known";

export interface Once<T> {
  /** Default: `kept`. */
  readonly as?: Mark | undefined;
  /** The number of the step, for `itself`. */
  readonly number?: string | undefined;
  /** Undoes a step whose call was rejected because its outcome was unknown. `answer`: that of the step, if it was kept. */
  readonly undo?: ((steps: Steps, answer: T | null) => Promise<unknown>) | undefined;
}

/** Calls functions in transactions of their own. */
export interface Steps extends Caller {
  /**
   * As `call`, for a step that must not be committed twice (sql/steps.sql: begin_attempt). If the outcome is unknown in the end, it
   * rejects with an `UnknownOutcomeError`, and the step is fenced off in the background, and undone where possible.
   */
  once<T>(name: string, args: readonly SqlValue[], once?: Once<T>): Promise<T>;
}

/** The database, as the rest of the storage sees it. */
export interface Database extends Steps {
  /** A number for a step, which no other step has. */
  nextNumber(): string;
  /** Several calls that belong together: once they are begun, closing waits for all of them. */
  together<T>(work: (database: Steps) => Promise<T>): Promise<T>;
  /** Throws if it is closed: for calls that need no statement. */
  check(): void;
}

export interface DatabaseOptions {
  readonly schema: string;
  readonly migrate: boolean;
  readonly timeout: number;
  readonly connections: number | undefined;
  readonly clock: Clock;
  readonly random: Random;
}

/** Takes the hints of steps, and may hold up the next step until other processes know that this one listens. */
export interface StepObserver {
  /** Steps wait for this. */
  readonly registering: Promise<void> | undefined;
  committed(hints: StepHints): void;
  /** The origin under which the next step may notify other processes inside its transaction; undefined: it may not. */
  notifyingOrigin(): string | undefined;
}

/** Functions whose last parameter, `again`, says that they may have run before. */
const ASKS_AGAIN: ReadonlySet<string> = new Set(["add", "add_uniform", "claim", "settle"]);

/** The prefix of the names of prepared statements: their texts differ from version to version. */
const STATEMENT_VERSION = `sluice${SCHEMA_VERSION}`;
/** The server truncates names of statements to so many bytes; names of schemas and functions are ASCII. */
const LONGEST_NAME = 63;

/** Which function a statement calls, and how. */
interface StepCall {
  readonly name: string;
  /** How many values the function takes. */
  readonly args: number;
  /** How it is prevented from being committed twice: the number of the step is its last value then. */
  readonly as: Mark | undefined;
}

/** A statement that runs a step. */
interface Statement {
  readonly text: string;
  /** The name under which connections may prepare it. */
  readonly name?: string | undefined;
  /** How many values it takes. */
  readonly values: number;
}

interface Answer {
  readonly rows: readonly unknown[];
}

/** Numbers are shown to the last digit, until the end of the transaction: what a column before does holds for the next. */
const EXACTLY = "pg_catalog.set_config('extra_float_digits', '1', true)";

/** How long a step waits for a lock, as a part of its time and at most: the server goes on after the client has given up. */
const LOCK = { part: 0.4, mostMs: 2_000 };

/** Steps that keep leases alive do not wait until a new listener is registered. */
const NEVER_HELD_UP: ReadonlySet<string> = new Set(["heartbeat", "settle", "sweep"]);

/**
 * The database behind a storage. It relies on no state of a session, neither settings nor prepared statements, so that it does not
 * matter which connection of which pool or pooler a step runs on.
 */
export class PostgresDatabase implements Database {
  readonly clock: Clock;
  /** Quoted, as it stands in statements. */
  readonly schema: string;
  observer: StepObserver | undefined;
  /** It is known that the schema is set up. */
  isReady = false;
  /** Calls of the user: closing waits for them. */
  readonly #openCalls: OpenCalls;
  /** For calls that are part of work that was begun. */
  readonly #begun: Steps = {
    call: (name, ...args) => this.#call(name, args),
    once: (name, args, once = {}) => this.#call(name, args, once),
  };
  readonly #unknown: UnknownOutcomes;
  /** The number of the latest step. The first is random, of so many that two storages do not collide. */
  #latest = BigInt.asUintN(62, globalThis.crypto.getRandomValues(new BigInt64Array(1))[0]!);
  readonly #options: DatabaseOptions;
  readonly #connections: Connections;
  readonly #retryPolicy: RetryPolicy;
  readonly #lockMs: number;
  /** Bounds how long a statement waits for locks, until the end of its transaction. */
  readonly #bound: string;
  #ready: Promise<void> | undefined;
  /** The default isolation level is not READ COMMITTED: every step sets it. */
  #explicit = false;
  /** The server shows doubles to the last digit by default. */
  #exact = true;
  readonly #firsts = new Map<string, Statement & { readonly args: number }>();
  /** Connections can prepare statements by name. */
  #names = true;
  /** No call of the user is begun any more. */
  #refusing = false;

  constructor(target: string | PostgresPool, options: DatabaseOptions) {
    this.clock = options.clock;
    this.#openCalls = new OpenCalls(options.clock);
    this.#unknown = new UnknownOutcomes(options.clock, (work) => this.#openCalls.run(work));
    this.schema = `"${options.schema}"`;
    this.#options = options;
    this.#connections = new Connections(target, options);
    this.#retryPolicy = new RetryPolicy(this.#connections, options);
    this.#lockMs = Math.ceil(Math.min(options.timeout * LOCK.part, LOCK.mostMs));
    this.#bound = `pg_catalog.set_config('lock_timeout', '${this.#lockMs}', true)`;
  }

  /** How many attempts were repeats. */
  get retries(): number {
    return this.#retryPolicy.retries;
  }

  check(): void {
    if (this.#refusing) throw closedError();
  }

  /** Begins no more calls of the user. Resolves when the open ones have ended, or the server has not answered for too long. */
  async refuse(): Promise<void> {
    this.#refusing = true;
    this.#unknown.hurry();
    await this.#openCalls.ended();
  }

  call<T>(name: string, ...args: readonly SqlValue[]): Promise<T> {
    return this.together((database) => database.call<T>(name, ...args));
  }

  once<T>(name: string, args: readonly SqlValue[], once?: Once<T>): Promise<T> {
    return this.together((database) => database.once<T>(name, args, once));
  }

  together<T>(work: (database: Steps) => Promise<T>): Promise<T> {
    return this.#openCalls.run(() => {
      this.check();
      return work(this.#begun);
    });
  }

  async #call<T>(name: string, args: readonly SqlValue[], once?: Once<T>): Promise<T> {
    if (!this.isReady) await this.#setup();
    const { observer } = this;
    if (observer?.registering !== undefined && !NEVER_HELD_UP.has(name)) await observer.registering;
    return this.step<T>(name, args, once);
  }

  /** As `call`, or `once`, whether or not the schema is known to be set up. */
  async step<T>(name: string, args: readonly SqlValue[], once?: Once<T>): Promise<T> {
    const answer = await (once === undefined ? this.quietly<T>(name, args) : this.#once<T>(name, args, once));
    if (typeof answer === "object" && answer !== null) this.observer?.committed(answer);
    return answer;
  }

  /** A step whose answer has no hints for subscribers. */
  quietly<T>(name: string, args: readonly SqlValue[]): Promise<T> {
    return this.#try<T>({ name, args: args.length, as: undefined }, args, {});
  }

  /** A number for a step, which no other step has. */
  nextNumber(): string {
    this.#latest += 1n;
    return this.#latest.toString();
  }

  #once<T>(name: string, args: readonly SqlValue[], { as = "kept", number = this.nextNumber(), undo }: Once<T>) {
    const unknown = (tries: number): void => {
      if (as !== "known") this.#unknown.add({ resolve: this.#resolver(number, tries, undo) });
    };
    return this.#try<T>({ name, args: args.length, as }, [...args, number], { unknown });
  }

  /** Returns a function that waits for the step of this number or fences it off, and undoes it. May be called until it succeeds. */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the kept answer has the type of the step
  #resolver<T>(number: string, triesBefore: number, undo: Once<T>["undo"]): () => Promise<unknown> {
    return async () => {
      const answer = await this.#retryPolicy.run<T | null>(
        "resolve",
        async (client, _, sent, tries) => {
          const text = `SELECT ${this.#bound}, ${this.schema}.begin_attempt($1, $2) AS answer`;
          return parsed<T | null>(await this.#atomic(client, { values: 2, text }, [number, tries], sent));
        },
        { triesBefore, unknown: (tries) => (triesBefore = tries) },
      );
      await undo?.(this.#begun, answer);
    };
  }

  async #try<T>(call: StepCall, values: readonly SqlValue[], options: CallOptions): Promise<T> {
    try {
      return await this.#retried<T>(call, values, options);
    } catch (error) {
      throw await whyMissing(this.#run, this.#options.schema, error);
    }
  }

  #retried<T>(call: StepCall, values: readonly SqlValue[], options: CallOptions): Promise<T> {
    return this.#retryPolicy.run<T>(
      call.name,
      async (client, again, sent, tries) => {
        const statement = tries === 0 ? this.#firstOf(call) : this.#statement(call, again, tries);
        return parsed<T>(await this.#atomic(client, statement, values.slice(0, statement.values), sent));
      },
      { ...options, size: sizeOf(values) },
    );
  }

  /**
   * The rows of a statement that only reads; `{schema}` in it stands for the schema. For inspection of the tables: names in it are
   * resolved by the search path of the session, and it waits for locks until its deadline.
   */
  rows<R>(text: string, ...values: readonly SqlValue[]): Promise<readonly R[]> {
    return this.together(() => this.#rows<R>(text, values));
  }

  async #rows<R>(text: string, values: readonly SqlValue[]): Promise<readonly R[]> {
    await this.#setup();
    const named = text.replaceAll("{schema}", this.schema);
    const rows = `SELECT coalesce(pg_catalog.json_agg(r), '[]')::pg_catalog.text AS answer FROM (${named}) AS r`;
    // The setting has to be evaluated before a row is turned into text.
    const wrapped = this.#exact ? rows : `WITH exactly AS MATERIALIZED (SELECT ${EXACTLY}) ${rows} CROSS JOIN exactly`;
    return this.#retryPolicy.run("a read", async (client, _, sent) => {
      sent();
      return parsed(await client.query(wrapped, [...values]));
    });
  }

  /** Makes sure that the schema is there, in this version. */
  setup(): Promise<void> {
    return this.together(() => this.#setup());
  }

  async #setup(): Promise<void> {
    this.#ready ??= this.#prepare().catch((error: unknown) => {
      this.#ready = undefined;
      throw error;
    });
    await this.#ready;
    this.isReady = true;
  }

  /** A connection outside of the pool; undefined where the pool cannot make one. */
  own(signal?: AbortSignal): Promise<OwnClient | undefined> {
    return this.#connections.own(signal);
  }

  /** Open calls fail. */
  async close(): Promise<void> {
    this.#refusing = true;
    this.#unknown.close();
    this.#retryPolicy.close();
    await this.#connections.close();
    // They have been rejected; this lets their callers run.
    await this.#openCalls.ended();
  }

  /** The statement of the first attempt of a step: made once, so that connections may prepare it. */
  #firstOf(call: StepCall): Statement {
    const { name, args, as } = call;
    const key = as === "kept" || as === "fenced" ? `${name}!` : name;
    const known = this.#firsts.get(key);
    if (known?.args === args) return known;
    const { text, values } = this.#statement(call, false, 0);
    // Storages that share a session use one name for one text only.
    const title = `${STATEMENT_VERSION}:${this.#lockMs}:${this.#options.schema}.${key}/${args}`;
    const first = { args, text, values, name: this.#exact && title.length <= LONGEST_NAME ? title : undefined };
    this.#firsts.set(key, first);
    return first;
  }

  #statement({ name, args, as }: StepCall, again: boolean, tries: number): Statement {
    const marks = Array.from({ length: args }, (_, i) => `$${i + 1}`).join(", ");
    const more = again && ASKS_AGAIN.has(name) ? `${marks && ", "}again => true` : "";
    const first = [this.#bound, ...(tries > 0 ? [triesOf(tries)] : []), ...(this.#exact ? [] : [EXACTLY])].join(", ");
    const call = `${this.schema}.${calledName(name)}(${marks}${more})::pg_catalog.text`;
    if (as === undefined || as === "known" || (as === "itself" && !again)) {
      return { values: args, text: `SELECT ${first}, ${call} AS answer` };
    }
    const attempt = `$${args + 1}, ${again ? tries : 0}`;
    const kept = as === "kept" ? `${this.schema}.keep_answer(${attempt}, ${call})` : call;
    const answer = `coalesce(${this.schema}.begin_attempt(${attempt}), ${kept})`;
    return { values: args + 1, text: `SELECT ${first}, ${answer} AS answer` };
  }

  readonly #run: Run = (work, withinMs) => this.#retryPolicy.run("setup", async (client) => work(client), { withinMs });

  async #prepare(): Promise<void> {
    const { schema, migrate } = this.#options;
    this.#exact = (await prepare(this.#run, schema, migrate)).exact;
    // Statements that were made before depend on it.
    this.#firsts.clear();
  }

  /** One statement, in a transaction that is READ COMMITTED. */
  async #atomic(client: PostgresExecutor, statement: Statement, values: SqlValue[], sent: () => void): Promise<Answer> {
    if (!this.#explicit) {
      sent();
      try {
        return await this.#alone(client, statement, values);
      } catch (error) {
        if (sqlStateOf(error) !== WRONG_ISOLATION) throw error;
        this.#explicit = true;
      }
    }
    await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
    // Nothing is committed before COMMIT. But the session holds the lock of the step until the server notices that the connection is
    // gone: only a repeat waits for that lock.
    sent();
    try {
      const answer = await client.query(statement.text, values);
      await client.query("COMMIT");
      return answer;
    } catch (error) {
      if (kindOf(error) !== "lost") await client.query("ROLLBACK");
      throw error;
    }
  }

  /**
   * One statement, prepared under its name where that is possible: it is not parsed and planned again then. If the session does not
   * know the name (a pooler has put another session behind the connection), nothing was done, and names are not used any more.
   */
  async #alone(client: PostgresExecutor, { text, name }: Statement, values: SqlValue[]): Promise<Answer> {
    if (name === undefined || !this.#names || !this.#connections.prepares) return client.query(text, values);
    try {
      return await (client as unknown as PreparingClient).query({ name, text, values });
    } catch (error) {
      if (!isStatementUnknown(error)) throw error;
      this.#names = false;
      return client.query(text, values);
    }
  }
}

/** Is the error about a prepared statement: unknown to the session, known with another text, or with a plan that is invalid? */
function isStatementUnknown(error: unknown): boolean {
  const state = sqlStateOf(error);
  if (state === "26000" || state === "42P05") return true;
  return state === "0A000" && (error as { readonly routine?: unknown }).routine === "RevalidateCachedQuery";
}

/** A step that needs its lock alone, and failed so often to get it, makes others wait for longer (sql/steps.sql: begin_step). */
const triesOf = (tries: number) => `pg_catalog.set_config('sluice.tries', '${tries}', true)`;

// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- only the SQL function knows its type
function parsed<T>({ rows }: Answer): T {
  const { answer } = rows[0] as { readonly answer: string | null };
  return (answer === null || answer === "" ? null : JSON.parse(answer)) as T;
}

function sizeOf(values: readonly SqlValue[]): number {
  let characters = 0;
  for (const value of values) if (typeof value === "string") characters += value.length;
  return characters;
}
