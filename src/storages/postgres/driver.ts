import type { Clock } from "../../core/clock.ts";
import { inTime } from "../../core/deadline.ts";

/** What is bound to a statement. */
export type SqlValue = string | number | boolean | null;

/** Whatever runs statements: a pool, a client, a transaction of yours. */
export interface PostgresExecutor {
  query(text: string, values?: SqlValue[]): Promise<{ readonly rows: readonly unknown[] }>;
}

/** A connection that remembers statements by their names, as those of `pg` do. */
export interface PreparingClient {
  query(statement: {
    readonly name: string;
    readonly text: string;
    readonly values: SqlValue[];
  }): Promise<{ readonly rows: readonly unknown[] }>;
}

/** A connection that was taken from a pool. `release(true)` ends it. */
export interface PostgresClient extends PostgresExecutor {
  release(destroy?: boolean): void;
}

/** The part of a pool that is used here. That of `pg` (8.11 or later) fits. */
export interface PostgresPool extends PostgresExecutor {
  connect(): Promise<PostgresClient>;
}

/** A connection of our own, outside of any pool. */
export interface OwnClient extends PostgresExecutor {
  connect(): Promise<unknown>;
  end(): Promise<void>;
  on(event: string, listener: (...args: never[]) => void): unknown;
}

/** What a pool of `pg` says about itself beyond that. */
export interface PoolTraits {
  /** What its clients are made with. */
  readonly Client?: new (options: unknown) => OwnClient;
  readonly options?: {
    readonly max?: number;
    /** What the user does with a new connection before it is used. */
    readonly onConnect?: (client: OwnClient) => unknown;
  };
  readonly totalCount?: number;
  readonly idleCount?: number;
  /** How many callers wait for a connection. */
  readonly waitingCount?: number;
  readonly end?: () => Promise<void>;
  /** Notifies the listeners of the pool. */
  readonly emit?: (event: "connect" | "remove", client: OwnClient) => unknown;
}

/** What can be listened to, by the names that Node gives it. */
interface Emitter {
  readonly on?: (event: string, listener: (...args: never[]) => void) => unknown;
  readonly removeListener?: (event: string, listener: (...args: never[]) => void) => unknown;
}

/**
 * A connection that breaks while it is idle emits `error`, and an `error` event without a listener ends the process. The next step on
 * the connection fails anyway, so the event is ignored. Returns a function that removes the listener.
 */
export function ignoreErrors(emitter: object): () => void {
  return listened(emitter, "error", () => {}) ?? (() => {});
}

/** Listens until the returned function is called; undefined: the object emits no events. */
export function listened(emitter: object, event: string, listener: (client: object) => void): (() => void) | undefined {
  const { on, removeListener } = emitter as Emitter;
  if (on === undefined) return undefined;
  on.call(emitter, event, listener);
  return () => removeListener?.call(emitter, event, listener);
}

/** How long ending a connection may take: a server that cannot be reached never answers. */
export const GOODBYE_MS = 1_000;

/**
 * Ends a connection of our own, whatever state it is in: by the protocol (`politely`), else by its socket. It keeps the process from
 * ending for a moment at most. Resolves when it has ended, and does not reject.
 */
export async function discard(client: OwnClient, politely: boolean, clock: Clock): Promise<void> {
  if (!politely) cutOff(client);
  // Some versions throw where others reject.
  const ended = async () => client.end();
  await inTime(clock, ended, { withinMs: GOODBYE_MS }).catch(() => cutOff(client));
}

/** Ends a connection by its socket. */
export function cutOff(client: object): void {
  const { connection } = client as { readonly connection?: { readonly stream?: { destroy?: () => void } } };
  connection?.stream?.destroy?.();
}

/** What the socket of a client of `pg` counts. */
interface Socket {
  readonly bytesRead?: unknown;
  readonly bytesWritten?: unknown;
  /** Of what was written, so much has not been taken by the system. */
  readonly _handle?: { readonly writeQueueSize?: unknown } | null;
}

/** How many bytes have come and gone over a connection, as far as that can be seen: a number that grows while there is progress. */
export function carriedBy(client: object): number {
  const { stream } = (client as { readonly connection?: { readonly stream?: Socket } }).connection ?? {};
  return numberOf(stream?.bytesRead) + numberOf(stream?.bytesWritten) - numberOf(stream?._handle?.writeQueueSize);
}

const numberOf = (value: unknown): number => (typeof value === "number" ? value : 0);

/** Lets the process end although the connection is open; or not. */
export function holdProcess(client: object, hold: boolean): void {
  const { ref, unref } = client as { readonly ref?: () => void; readonly unref?: () => void };
  if (hold) ref?.call(client);
  else unref?.call(client);
}
