import type { Check } from "./options.ts";

/** Text that every storage keeps as it is. */
export const text = (longest: number): Check<string> => ({
  expected: `a string of 1 to ${longest} characters, without U+0000 or lone surrogates`,
  read: (value) =>
    typeof value === "string" &&
    value.length >= 1 &&
    value.length <= longest &&
    value.isWellFormed() &&
    !value.includes("\u0000")
      ? value
      : undefined,
});

/** Names of types and groups. */
export const nameText = /* @__PURE__ */ text(255);
/** Names of queues. Shorter, for names of limits are made from them. */
export const queueName = /* @__PURE__ */ text(200);
/** Idempotency keys. */
export const keyText = /* @__PURE__ */ text(512);
