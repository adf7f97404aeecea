/** What one type of job takes and gives. */
export interface JobShape {
  readonly data: unknown;
  readonly result?: unknown;
}

/** Maps types to what they take and give. An interface of the user's own fits as well as a type. */
export type JobMap<Jobs> = { readonly [Type in keyof Jobs]: JobShape };

/** Where nothing was said, anything goes. */
// oxlint-disable-next-line typescript/no-explicit-any -- without a map, data is whatever the handler says it is
export type AnyJobs = Record<string, { data: any; result: any }>;

export type TypeOf<Jobs> = keyof Jobs & string;
export type DataOf<Jobs, Type extends keyof Jobs> = Jobs[Type] extends { readonly data: infer Data } ? Data : unknown;
export type ResultOf<Jobs, Type extends keyof Jobs> = Jobs[Type] extends { readonly result: infer Result }
  ? Result
  : unknown;
