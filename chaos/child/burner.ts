import { hr } from "../history/entry.ts";

/** Between two of these the process checks whether its conductor still runs. */
const SLICE_MS = 50;

/** Keeps a processor busy until it is ended. */
export function burn(): void {
  const end = hr() + SLICE_MS;
  while (hr() < end);
  setImmediate(burn);
}
