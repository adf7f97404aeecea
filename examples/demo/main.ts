// The demo: a service with a quota, called as fast as the quota allows and never faster. The closing report is what the
// service saw. Flags: see --help. Exit code 0: no 429; 1: there was one under the limiter; 2: a flag was wrong.
import { constants } from "node:os";
import {
  CompositeLimiter,
  ConcurrencyLimiter,
  type ILimiter,
  InMemoryRateLimiterStorage,
  limit,
  NullLimiter,
  RateLimiter,
} from "sluice";
import { nextStartIn, useOfAllowance } from "./arithmetic.ts";
import { FlagError, type Flags, HELP, readFlags } from "./flags.ts";
import { showProgress } from "./progress.ts";
import { report, seconds } from "./report.ts";
import { type Service, startService } from "./service.ts";

function limiterFor({ quota, windowMs, concurrency, guard, unlimited }: Flags): ILimiter {
  if (unlimited) return new NullLimiter();
  return new CompositeLimiter([
    new ConcurrencyLimiter(concurrency),
    new RateLimiter(new InMemoryRateLimiterStorage(), "quota-service", {
      maxExecutions: quota,
      windowSizeInSeconds: windowMs / 1000,
      guard,
    }),
  ]);
}

/** Makes all calls, or those that started before `stop`. */
async function run(service: Service, flags: Flags, stop: AbortSignal): Promise<{ failed: number }> {
  const starts: number[] = [];
  const seen = { done: 0, refused: 0, failed: 0 };
  const call = limit(
    async () => {
      starts.push(performance.now());
      const status = await service.call();
      seen.done += 1;
      if (status === 429) seen.refused += 1;
    },
    limiterFor(flags),
    { signal: stop },
  );
  const endProgress = showProgress(
    () => ({
      done: seen.done,
      total: flags.calls,
      inFlight: call.running,
      waiting: call.waiting,
      nextIn: call.waiting === 0 ? undefined : nextStartIn(starts, flags, flags.guard, performance.now()),
      use: flags.unlimited ? undefined : useOfAllowance(starts, flags),
      refused: seen.refused,
    }),
    process.stdout,
  );
  stop.addEventListener("abort", endProgress);
  await Promise.all(
    Array.from({ length: flags.calls }, () =>
      call().catch(() => {
        if (!stop.aborted) seen.failed += 1;
      }),
    ),
  );
  endProgress();
  return seen;
}

async function main(flags: Flags): Promise<number> {
  const stop = new AbortController();
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.once(signal, () => stop.abort(signal));
  // Whoever reads the output may stop reading.
  process.stdout.on("error", () => process.exit(1));

  const { quota, windowMs, concurrency, guard } = flags;
  console.log(
    `\n  The service allows ${quota} calls in any ${seconds(windowMs)} s, and ${concurrency} at the same time.`,
  );
  console.log(
    `  ${flags.calls} calls ${flags.unlimited ? "without a limiter" : `under a limiter, with a guard of ${guard} ms`}:\n`,
  );

  const service = await startService(flags);
  try {
    await service.warmUp(concurrency);
    const { failed } = await run(service, flags, stop.signal);
    const record = await service.record();
    console.log(`\n  ${stop.signal.aborted ? "Stopped. Until then" : "Done. What"} the service saw:\n`);
    console.log(`${report(record, flags)}\n`);
    if (failed > 0) console.error(`  ${failed} calls had no answer at all.\n`);
    if (stop.signal.aborted) return 128 + constants.signals[stop.signal.reason as (typeof signals)[number]];
    return failed > 0 || (record.refused > 0 && !flags.unlimited) ? 1 : 0;
  } finally {
    await service.stop();
  }
}

try {
  const flags = readFlags(process.argv.slice(2));
  if (flags === undefined) console.log(HELP);
  else process.exitCode = await main(flags);
} catch (error) {
  if (!(error instanceof FlagError)) throw error;
  console.error(`${error.message}\nSee --help.`);
  process.exitCode = 2;
}
