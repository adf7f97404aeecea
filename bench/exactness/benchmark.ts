import type { Benchmark } from "../row.ts";
import { startServers } from "../postgres/servers.ts";

export const benchmark: Benchmark = {
  title: "Exactness",
  intro:
    "Whether a limit that several processes share holds where it is measured: at the call. Processes start what they may, " +
    "with more to start than the limit allows. The first statement of each handler (or of what follows a permit) reads the " +
    "monotonic clock, which the processes of a computer share; everything here is judged by these stamps, and by nothing " +
    "else. Worst window: the most calls in any half-open window of that length. Windows over: of those that begin with a " +
    "call and could hold one too many, how many do, from the first call on. Use: the least time that the limit allows for " +
    "the calls after the warm-up, of the time that they took; more than 100 % is over the limit. Calls of the storage per " +
    "start: of Sluice, every call of a member of its storage; of others, the queries or commands that are sent to their server. " +
    "Late: by how much a call came after the earliest instant that the calls before it allowed (median). Handlers do nothing. " +
    "Each contender runs once per round, in processes of its own, and each round begins with another one.",
  quick: true,
  only: true,
  setUp: startServers,
  modules: ["table.ts"],
};
