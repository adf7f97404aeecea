import type { LimitDefinitions, NewJob } from "../../dist/index.js";

/** Jobs of one kind that are drained, so many at a time. */
export interface Case {
  readonly name: string;
  readonly jobs: number;
  readonly max: number;
  readonly limits?: LimitDefinitions;
  /** Claims at a time. Default 1. */
  readonly claims?: number;
  readonly of?: (n: number) => Partial<NewJob>;
  /** Jobs are added one by one, or so many at a time, and that is measured instead. */
  readonly adding?: number;
}

const WIDE = { max: 1_000_000_000, per: "1h" } as const;
const uniform: LimitDefinitions = {
  a: { ...WIDE, all: true },
  b: { ...WIDE, all: true },
  c: { concurrency: 100_000, all: true },
};
const byGroup: LimitDefinitions = {
  a: { ...WIDE, all: true },
  b: { concurrency: 100_000, all: true },
  c: { ...WIDE, by: "group" },
};
/** All of it is in use between two claims. */
const full: LimitDefinitions = { full: { concurrency: 10, all: true } };
const fullByGroup: LimitDefinitions = { ...byGroup, ...full };
const byType: LimitDefinitions = { a: { ...WIDE, types: ["t0"] }, b: { ...WIDE, types: ["t1"] } };
const ofOthers = (count: number): LimitDefinitions =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`o${n}`, { ...WIDE, types: [`other ${n}`] }]));
const groups = (count: number) => (n: number) => ({ group: `g${n % count}` });
const types = (count: number) => (n: number) => ({ type: `t${n % count}` });

export const CASES: readonly Case[] = [
  { name: "add one by one", jobs: 300, max: 1_000, adding: 1 },
  { name: "add 100 at a time", jobs: 5_000, max: 1_000, adding: 100 },
  { name: "no limits, 1 at a time", jobs: 300, max: 1 },
  { name: "no limits, 10 at a time", jobs: 2_000, max: 10 },
  { name: "no limits, 100 at a time", jobs: 5_000, max: 100 },
  { name: "three limits for all, 10 at a time", jobs: 2_000, max: 10, limits: uniform },
  { name: "three limits for all, 100 at a time", jobs: 5_000, max: 100, limits: uniform },
  { name: "three limits, one by group, 10 at a time", jobs: 1_000, max: 10, limits: byGroup, of: groups(50) },
  { name: "three limits, one by group, 100 at a time", jobs: 4_000, max: 100, limits: byGroup, of: groups(50) },
  { name: "a full limit, 10 at a time", jobs: 2_000, max: 10, limits: full },
  { name: "three limits, one full, 10 at a time", jobs: 2_000, max: 10, limits: { ...uniform, ...full } },
  {
    name: "four limits, one full, one by group, 10 at a time",
    jobs: 1_000,
    max: 10,
    limits: fullByGroup,
    of: groups(50),
  },
  { name: "limits of two types, 10 at a time", jobs: 1_000, max: 10, limits: byType, of: types(2) },
  { name: "limits of two types, 100 at a time", jobs: 4_000, max: 100, limits: byType, of: types(2) },
  { name: "100 limits of other types, 10 at a time", jobs: 500, max: 10, limits: ofOthers(100) },
  { name: "ten groups, 10 at a time", jobs: 1_000, max: 10, of: groups(10) },
  { name: "fifty groups, 10 at a time", jobs: 1_000, max: 10, of: groups(50) },
  { name: "fifty groups, 100 at a time", jobs: 4_000, max: 100, of: groups(50) },
  { name: "fifty groups, 10 at a time, four claims at once", jobs: 2_000, max: 10, claims: 4, of: groups(50) },
];
