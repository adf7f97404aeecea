import type { Clock } from "../../core/clock.ts";
import type { Random } from "../../core/random.ts";
import { Connections } from "./connections.ts";
import type { OwnClient, PostgresExecutor, PostgresPool, RememberingClient, SqlValue } from "./driver.ts";
import { closedError, kindOf, sqlStateOf, WRONG_ISOLATION } from "./failures.ts";
import { prepare, type Run } from "./migrations.ts";
import { Patience, type Trying } from "./patience.ts";
import { Resolving } from "./resolving.ts";
import type { Told } from "./told.ts";
import { UnderWay } from "./under-way.ts";

/** What asks the database. */
export interface Caller {
  /** One of our functions: one round trip, one transaction. The parsed answer. */
  call<T>(name: string, ...args: readonly SqlValue[]): Promise<T>;
}

/**
 * How a step is kept from being done twice, where its first attempt was cut off:
 *
 * - `kept`: a repeat waits for attempts before it and fences them off, and the answer is kept: if one was done, that is what the repeat
 *   answers.
 * - `fenced`: the same, but the answer is not kept: the function knows by itself what it has done before (`again`), or doing it twice in
 *   a row makes no difference.
 * - `itself`: as `fenced`; the function is told its number, and begins its first attempt by itself, which costs less.
 * - `known`: neither. By what is there the function knows that it was done, and so does an attempt that arrives late.
 */
export type Mark = "kept" | "fenced" | "itself" | "known";

export interface Once<T> {
  /** Default: `kept`. */
  readonly as?: Mark | undefined;
  /** The number of the step, for `itself`. */
  readonly number?: string | undefined;
  /** The caller was told that the outcome is unknown: undoes what was done. `answer`: what it has answered, if that was kept. */
  readonly undo?: ((steps: Steps, answer: T | null) => Promise<unknown>) | undefined;
}

/** What asks the database in transactions of its own. */
export interface Steps extends Caller {
  /**
   * As `call`, for what must not be done twice (sql/steps.sql: begin_attempt). If the outcome is unknown in the end, that is an
   * `UnknownOutcomeError`, and it is seen to that the step is over, and undone where that can be.
   */
  once<T>(name: string, args: readonly SqlValue[], once?: Once<T>): Promise<T>;
}

/** What the rest of the storage asks the database with. */
export interface Database extends Steps {
  /** A number for a step, which no other has. */
  nextNumber(): string;
  /** Several calls that belong together: once they are begun, closing waits for all of them. */
  together<T>(work: (database: Steps) => Promise<T>): Promise<T>;
  /** Throws, if it is closed: for whoever need not ask anything. */
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

/** Who wants to know what steps tell, and may hold up the next one until it is heard of. */
export interface Audience {
  /** Steps wait for this. */
  readonly settling: Promise<void> | undefined;
  committed(told: Told): void;
  /** Who a step may tell others of itself as, from inside of its transaction; undefined: it may not. */
  teller(): string | undefined;
}

/** Functions that want to know that they may have run before: their last parameter, `again`. */
const ASKS_AGAIN: ReadonlySet<string> = new Set(["add", "add_uniform", "claim", "settle"]);

/** How steps are said: whoever says them otherwise, under the names of statements, needs another word here. */
const SAID = "sluice2";
/** The server knows names by so many bytes, and names of schemas and functions are plain. */
const LONGEST_NAME = 63;

/** What a statement runs, and how. */
interface Saying {
  readonly name: string;
  /** How many values the function takes. */
  readonly args: number;
  /** How it is kept from being done twice: the number of the step is its last value then. */
  readonly as: Mark | undefined;
}

/** A statement that runs a step. */
interface Statement {
  readonly text: string;
  /** What connections may remember it by. */
  readonly name?: string | undefined;
  /** How many values it takes. */
  readonly values: number;
}

interface Answer {
  readonly rows: readonly unknown[];
}

/** Numbers are shown to the last digit, until the end of the transaction: what a column before does holds for the next. */
const EXACTLY = "pg_catalog.set_config('extra_float_digits', '1', true)";

/** For how long a step waits for a lock at most, and which part of its time: the server goes on when nobody waits for it. */
const LOCK = { part: 0.4, mostMs: 2_000 };

/** What keeps leases alive waits for nobody who begins to listen. */
const WAITS_FOR_NOBODY: ReadonlySet<string> = new Set(["heartbeat", "settle", "sweep"]);

/**
 * The database behind a storage. Nothing that is kept in a session is relied on, neither settings nor statements that it has
 * seen before, so that it does not matter which connection of which pool or pooler a step runs on.
 */
export class PostgresDatabase implements Database {
  readonly clock: Clock;
  /** Quoted, as it stands in statements. */
  readonly schema: string;
  audience: Audience | undefined;
  /** Is it known that all is set up? */
  isReady = false;
  /** Calls of the user's: closing waits for them. */
  readonly #underWay: UnderWay;
  /** For calls that are part of something that was begun. */
  readonly #begun: Steps = {
    call: (name, ...args) => this.#call(name, args),
    once: (name, args, once = {}) => this.#call(name, args, once),
  };
  readonly #resolving: Resolving;
  /** The number of the latest step. The first is drawn from so many that no two storages meet. */
  #latest = BigInt.asUintN(62, globalThis.crypto.getRandomValues(new BigInt64Array(1))[0]!);
  readonly #options: DatabaseOptions;
  readonly #connections: Connections;
  readonly #patience: Patience;
  readonly #lockMs: number;
  /** Bounds how long a statement waits for locks, until the end of its transaction. */
  readonly #bound: string;
  #ready: Promise<void> | undefined;
  /** The default of the server, the database or the user is another isolation level than ours: every step says which. */
  #explicit = false;
  /** Numbers come to the last digit without being asked for. */
  #exact = true;
  readonly #firsts = new Map<string, Statement & { readonly args: number }>();
  /** Connections remember statements by their names. */
  #names = true;
  /** Nothing more is begun for the user. */
  #refusing = false;

  constructor(target: string | PostgresPool, options: DatabaseOptions) {
    this.clock = options.clock;
    this.#underWay = new UnderWay(options.clock);
    this.#resolving = new Resolving(options.clock, (work) => this.#underWay.through(work));
    this.schema = `"${options.schema}"`;
    this.#options = options;
    this.#connections = new Connections(target, options);
    this.#patience = new Patience(this.#connections, options);
    this.#lockMs = Math.ceil(Math.min(options.timeout * LOCK.part, LOCK.mostMs));
    this.#bound = `pg_catalog.set_config('lock_timeout', '${this.#lockMs}', true)`;
  }

  /** How often something was tried again. */
  get retries(): number {
    return this.#patience.retries;
  }

  check(): void {
    if (this.#refusing) throw closedError();
  }

  /** From here on only what is under way is done, and what the hub still has to say. Resolves when it is; or nobody answers. */
  async refuse(): Promise<void> {
    this.#refusing = true;
    this.#resolving.hurry();
    await this.#underWay.over();
  }

  call<T>(name: string, ...args: readonly SqlValue[]): Promise<T> {
    return this.together((database) => database.call<T>(name, ...args));
  }

  once<T>(name: string, args: readonly SqlValue[], once?: Once<T>): Promise<T> {
    return this.together((database) => database.once<T>(name, args, once));
  }

  together<T>(work: (database: Steps) => Promise<T>): Promise<T> {
    return this.#underWay.through(() => {
      this.check();
      return work(this.#begun);
    });
  }

  async #call<T>(name: string, args: readonly SqlValue[], once?: Once<T>): Promise<T> {
    if (!this.isReady) await this.#setup();
    const { audience } = this;
    if (audience?.settling !== undefined && !WAITS_FOR_NOBODY.has(name)) await audience.settling;
    return this.step<T>(name, args, once);
  }

  /** As `call`, or `once`, whether or not the tables are known to be there. */
  async step<T>(name: string, args: readonly SqlValue[], once?: Once<T>): Promise<T> {
    const answer = await (once === undefined ? this.quietly<T>(name, args) : this.#once<T>(name, args, once));
    if (typeof answer === "object" && answer !== null) this.audience?.committed(answer);
    return answer;
  }

  /** A step whose answer is for whoever asks, and not told to anybody. */
  quietly<T>(name: string, args: readonly SqlValue[]): Promise<T> {
    return this.#try<T>({ name, args: args.length, as: undefined }, args, {});
  }

  /** A number for a step, which no other has. */
  nextNumber(): string {
    this.#latest += 1n;
    return this.#latest.toString();
  }

  #once<T>(name: string, args: readonly SqlValue[], { as = "kept", number = this.nextNumber(), undo }: Once<T>) {
    const unknown = (tries: number): void => {
      if (as !== "known") this.#resolving.add({ resolve: this.#resolver(number, tries, undo) });
    };
    return this.#try<T>({ name, args: args.length, as }, [...args, number], { unknown });
  }

  /** Waits for the step of this number or fences it off, and undoes it. May be called until it succeeds. */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- what was kept is what the step answers
  #resolver<T>(number: string, triesBefore: number, undo: Once<T>["undo"]): () => Promise<unknown> {
    return async () => {
      const answer = await this.#patience.until<T | null>(
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

  #try<T>(saying: Saying, values: readonly SqlValue[], trying: Trying): Promise<T> {
    return this.#patience.until<T>(
      saying.name,
      async (client, again, sent, tries) => {
        const statement = tries === 0 ? this.#firstOf(saying) : this.#statement(saying, again, tries);
        return parsed<T>(await this.#atomic(client, statement, values.slice(0, statement.values), sent));
      },
      { ...trying, size: sizeOf(values) },
    );
  }

  /**
   * Rows of a statement that only reads; `{schema}` in it stands for the schema. For whoever looks at the tables from outside:
   * names in it mean what the session says, and it waits for locks for as long as there is time.
   */
  rows<R>(text: string, ...values: readonly SqlValue[]): Promise<readonly R[]> {
    return this.together(() => this.#rows<R>(text, values));
  }

  async #rows<R>(text: string, values: readonly SqlValue[]): Promise<readonly R[]> {
    await this.#setup();
    const named = text.replaceAll("{schema}", this.schema);
    const rows = `SELECT coalesce(pg_catalog.json_agg(r), '[]')::pg_catalog.text AS answer FROM (${named}) AS r`;
    // A row becomes text when it has met the other one, and not before.
    const wrapped = this.#exact ? rows : `WITH exactly AS MATERIALIZED (SELECT ${EXACTLY}) ${rows} CROSS JOIN exactly`;
    return this.#patience.until("a read", async (client, _, sent) => {
      sent();
      return parsed(await client.query(wrapped, [...values]));
    });
  }

  /** Everything is there that the storage needs, in this version; or it is made now. */
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

  /** What is still under way fails. */
  async close(): Promise<void> {
    this.#refusing = true;
    this.#resolving.close();
    this.#patience.close();
    await this.#connections.close();
    // By now everybody knows; this is for the last turn.
    await this.#underWay.over();
  }

  /** The statement of a first attempt at a step: made once, and connections may remember it. */
  #firstOf(saying: Saying): Statement {
    const { name, args, as } = saying;
    const key = as === "kept" || as === "fenced" ? `${name}!` : name;
    const known = this.#firsts.get(key);
    if (known?.args === args) return known;
    const { text, values } = this.#statement(saying, false, 0);
    // Whoever shares a session has the same name for the same text, and for no other.
    const title = `${SAID}:${this.#lockMs}:${this.#options.schema}.${key}/${args}`;
    const first = { args, text, values, name: this.#exact && title.length <= LONGEST_NAME ? title : undefined };
    this.#firsts.set(key, first);
    return first;
  }

  #statement({ name, args, as }: Saying, again: boolean, tries: number): Statement {
    const marks = Array.from({ length: args }, (_, i) => `$${i + 1}`).join(", ");
    const more = again && ASKS_AGAIN.has(name) ? `${marks && ", "}again => true` : "";
    const first = [this.#bound, ...(tries > 0 ? [triesOf(tries)] : []), ...(this.#exact ? [] : [EXACTLY])].join(", ");
    const call = `${this.schema}.${name}(${marks}${more})::pg_catalog.text`;
    if (as === undefined || as === "known" || (as === "itself" && !again)) {
      return { values: args, text: `SELECT ${first}, ${call} AS answer` };
    }
    const attempt = `$${args + 1}, ${again ? tries : 0}`;
    const kept = as === "kept" ? `${this.schema}.keep_answer(${attempt}, ${call})` : call;
    const answer = `coalesce(${this.schema}.begin_attempt(${attempt}), ${kept})`;
    return { values: args + 1, text: `SELECT ${first}, ${answer} AS answer` };
  }

  async #prepare(): Promise<void> {
    const { schema, migrate } = this.#options;
    const run: Run = (work, withinMs) => this.#patience.until("setup", async (client) => work(client), { withinMs });
    this.#exact = (await prepare(run, schema, migrate)).exact;
    // They were made before that was known.
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
    // It is not done before COMMIT. But its session holds the lock of its number for as long as it does not know that it was cut off:
    // only what counts as a repeat waits for that.
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
   * One statement, by its name where that is remembered: it is not read and planned again then. Where that turns out not to
   * be so (a pooler has put another session behind the connection), nothing was done, and it goes on without names for good.
   */
  async #alone(client: PostgresExecutor, { text, name }: Statement, values: SqlValue[]): Promise<Answer> {
    if (name === undefined || !this.#names || !this.#connections.remember) return client.query(text, values);
    try {
      return await (client as unknown as RememberingClient).query({ name, text, values });
    } catch (error) {
      if (!isForgotten(error)) throw error;
      this.#names = false;
      return client.query(text, values);
    }
  }
}

/** Is it about the name of a statement: unknown to the session, or known for something else, or its plan is of no use? */
function isForgotten(error: unknown): boolean {
  const state = sqlStateOf(error);
  if (state === "26000" || state === "42P05") return true;
  return state === "0A000" && (error as { readonly routine?: unknown }).routine === "RevalidateCachedQuery";
}

/** Whoever wants to be alone, and came in vain so often, keeps others waiting for longer (sql/steps.sql: begin_step). */
const triesOf = (tries: number) => `pg_catalog.set_config('sluice.tries', '${tries}', true)`;

// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- what it is, only the function that answered knows
function parsed<T>({ rows }: Answer): T {
  const { answer } = rows[0] as { readonly answer: string | null };
  return (answer === null || answer === "" ? null : JSON.parse(answer)) as T;
}

function sizeOf(values: readonly SqlValue[]): number {
  let characters = 0;
  for (const value of values) if (typeof value === "string") characters += value.length;
  return characters;
}
