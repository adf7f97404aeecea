import { OptionsError } from "../core/errors.ts";
import { ConcurrencyLimiter } from "./concurrency-limiter.ts";
import { EvenlySpacedRateLimiter } from "./evenly-spaced-rate-limiter.ts";
import type { ILimiter } from "./limiter.ts";
import { NullLimiter } from "./null-limiter.ts";

/** Names a service of type `T`, and makes a default one where none is registered. */
export interface ServiceToken<T> {
  readonly id: string;
  readonly create?: (() => T) | undefined;
}

/** A token of your own. Two tokens with the same id are the same token. */
export function createServiceToken<T>(id: string, create?: () => T): ServiceToken<T> {
  if (typeof id !== "string" || id === "") {
    throw new OptionsError("createServiceToken", "id", id, "a string that is not empty");
  }
  return { id, create };
}

/** The limiter for jobs. Until one is registered: no limit. */
export const JOB_LIMITER: ServiceToken<ILimiter> = { id: "jobqueue.limiter", create: () => new NullLimiter() };

/** A limiter of concurrency. Until one is registered: one at a time. */
export const CONCURRENT_JOB_LIMITER: ServiceToken<ILimiter> = {
  id: "jobqueue.limiter.concurrent",
  create: () => new ConcurrencyLimiter(1),
};

/** A limiter that spaces evenly. Until one is registered: one a second. */
export const EVENLY_SPACED_JOB_RATE_LIMITER: ServiceToken<ILimiter> = {
  id: "jobqueue.limiter.rate.evenlyspaced",
  create: () => new EvenlySpacedRateLimiter({ maxExecutions: 60, windowSizeInSeconds: 60 }),
};

/** No limit. */
export const NULL_JOB_LIMITER: ServiceToken<ILimiter> = {
  id: "jobqueue.limiter.null",
  create: () => new NullLimiter(),
};

/** Services by token. */
export class ServiceRegistry {
  readonly #instances = new Map<string, unknown>();
  readonly #factories = new Map<string, () => unknown>();

  /** From now on `get` answers with what `factory` makes, made when it is first asked for. Replaces what was there. */
  register<T>(token: ServiceToken<T>, factory: () => T): void {
    if (typeof factory !== "function") {
      throw new OptionsError("ServiceRegistry.register", "factory", factory, "a function");
    }
    const id = idOf("register", token);
    this.#factories.set(id, factory);
    this.#instances.delete(id);
  }

  /** From now on `get` answers with `instance`. Replaces what was there. */
  registerInstance<T>(token: ServiceToken<T>, instance: T): void {
    const id = idOf("registerInstance", token);
    this.#factories.delete(id);
    this.#instances.set(id, instance);
  }

  /** Is there an answer to `get`? */
  has<T>(token: ServiceToken<T>): boolean {
    const id = idOf("has", token);
    return this.#instances.has(id) || this.#factories.has(id) || token.create !== undefined;
  }

  /** The one instance for this token: what was registered, or else the token's default. */
  get<T>(token: ServiceToken<T>): T {
    const id = idOf("get", token);
    if (!this.#instances.has(id)) {
      const factory = this.#factories.get(id) ?? token.create;
      if (factory === undefined) {
        throw new OptionsError("ServiceRegistry.get", "token", id, "a token that something is registered for");
      }
      this.#instances.set(id, factory());
    }
    return this.#instances.get(id) as T;
  }
}

/** The id of a token. The id alone is no token: what is registered for it would never be found. */
function idOf(method: string, token: ServiceToken<unknown> | undefined): string {
  if (typeof token?.id === "string" && token.id !== "") return token.id;
  throw new OptionsError(`ServiceRegistry.${method}`, "token", token, "a token, such as JOB_LIMITER");
}

/** The registry that is used where none is given. */
export const globalServiceRegistry: ServiceRegistry = /* @__PURE__ */ new ServiceRegistry();
