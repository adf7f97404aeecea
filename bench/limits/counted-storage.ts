import type { JobStorage } from "../../dist/index.js";
import { counted } from "../queue/counted.ts";

/** The same storage, with every call counted: its own members and those of its limits and rates. */
export function countedStorage(storage: JobStorage, calls: { count: number }): JobStorage {
  const parts = new Map<string | symbol, object>([
    ["limits", counted(storage.limits, calls)],
    ["rates", counted(storage.rates, calls)],
  ]);
  return new Proxy(counted(storage, calls), {
    get: (object, key): unknown => parts.get(key) ?? Reflect.get(object, key),
  });
}
