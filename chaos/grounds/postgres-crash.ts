import pg from "pg";
import type { CrashPoint } from "../child/spec.ts";

/** How a step is known by the function that it calls, and what that was given. */
const STATEMENTS: Readonly<Record<CrashPoint["step"], (text: string, values: readonly unknown[]) => boolean>> = {
  add: (text) => /\.add(_uniform)?_\d+\(/.test(text),
  claim: (text) => /\.claim_\d+\(/.test(text),
  settle: (text, values) =>
    /\.settle_\d+\(/.test(text) || (/\.claim_\d+\(/.test(text) && /"(settle|ids)":\[/.test(String(values[0]))),
  heartbeat: (text) => /\.heartbeat_\d+\(/.test(text),
  sweep: (text) => /\.sweep_\d+\(/.test(text),
};

/**
 * A pool whose process ends or stops itself at a named point: before a step is sent, while the server works on it, or when
 * its answer has come. The storage does not know: it is handed the pool as its user's own.
 */
export function crashingPool(database: string, point: CrashPoint): pg.Pool {
  let left = point.nth;
  const strike = () => {
    left -= 1;
    if (left !== 0) return;
    process.kill(process.pid, point.signal);
    // No code of this process runs until the signal has come.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
  };
  class CrashingClient extends pg.Client {
    // Every statement of a pool goes through a client, however it is issued.
    override query(...given: unknown[]): never {
      const [first] = given;
      const { text = first, values = given[1] } = (typeof first === "object" ? first : {}) as Record<string, unknown>;
      const marked = STATEMENTS[point.step](String(text), Array.isArray(values) ? values : []);
      if (marked && point.at === "begin") strike();
      const send = super.query.bind(this) as (...rest: unknown[]) => unknown;
      const callback = given.at(-1);
      if (marked && point.at === "after-commit" && typeof callback === "function") {
        given[given.length - 1] = (...answer: unknown[]) => {
          strike();
          (callback as (...rest: unknown[]) => void)(...answer);
        };
      }
      const sent = send(...given);
      if (marked && point.at === "before-commit") setImmediate(strike);
      if (marked && point.at === "after-commit" && sent instanceof Promise) {
        return sent.finally(strike) as never;
      }
      return sent as never;
    }
  }
  const config = { connectionString: database, allowExitOnIdle: true, Client: CrashingClient };
  return new pg.Pool(config);
}
