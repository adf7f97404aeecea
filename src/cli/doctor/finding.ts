/** One line of the doctor's report. */
export interface Finding {
  readonly check: string;
  readonly status: "ok" | "warn" | "fail";
  readonly says: string;
  /** What to do about it. */
  readonly advice?: string;
}
