/** The data and the result of one type of job. */
export interface JobShape {
  readonly data: unknown;
  readonly result?: unknown;
}

/** Maps types of jobs to their data and result. Interfaces and type aliases both fit. */
export type JobMap<Jobs> = { readonly [Type in keyof Jobs]: JobShape };

/** The map of a queue without type parameter: any type, with any data and result. */
// oxlint-disable-next-line typescript/no-explicit-any -- without a map, data is whatever the handler says it is
export type AnyJobs = Record<string, { data: any; result: any }>;

export type TypeOf<Jobs> = keyof Jobs & string;
export type DataOf<Jobs, Type extends keyof Jobs> = Jobs[Type] extends { readonly data: infer Data } ? Data : unknown;
export type ResultOf<Jobs, Type extends keyof Jobs> = Jobs[Type] extends { readonly result: infer Result }
  ? Result
  : unknown;
