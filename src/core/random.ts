/** A number from 0 (included) to 1 (excluded). Tests pass their own. */
export type Random = () => number;

/** The default: `Math.random`. */
export const systemRandom: Random = () => Math.random();

/**
 * A unique id: a UUID of version 7, so that later ids sort later and indexes grow at their end.
 * `wall` is the time it is made, in milliseconds since 1970.
 */
export function newId(wall: number): string {
  const bytes = randomBytes();
  let time = Math.max(0, Math.floor(wall));
  for (let i = 5; i >= 0; i--) {
    bytes[i] = time % 256;
    time = Math.floor(time / 256);
  }
  bytes[6] = (bytes[6]! & 0x0f) | 0x70;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  let id = "";
  for (let i = 0; i < 16; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) id += "-";
    id += HEX[bytes[i]!];
  }
  return id;
}

/** Random bytes are read in larger pieces: measured, a call for every id takes a third of the time of adding a job. */
const POOL_BYTES = 4_096;
let pool: Uint8Array | undefined;
let used = 0;

function randomBytes(): Uint8Array {
  if (pool === undefined || used === POOL_BYTES) {
    pool = crypto.getRandomValues(new Uint8Array(POOL_BYTES));
    used = 0;
  }
  used += 16;
  return pool.subarray(used - 16, used);
}

const HEX: readonly string[] = /* @__PURE__ */ Array.from({ length: 256 }, (_, byte) =>
  byte.toString(16).padStart(2, "0"),
);
