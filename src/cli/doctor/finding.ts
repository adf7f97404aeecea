/** One line of what the doctor says. */
export interface Finding {
  readonly check: string;
  readonly status: "ok" | "warn" | "fail";
  readonly says: string;
  /** What to do about it. */
  readonly advice?: string;
}
