import { OFFSET_MS } from "../../storage/clock-repair.ts";
import { answer, type Command, DATABASE } from "../command.ts";
import { withDatabase } from "../database.ts";
import { Failure } from "../failures.ts";
import { duration, instant } from "../render/time.ts";

export const clock: Command = {
  name: "clock",
  summary: "how far the storage is off the wall clock; repairs that",
  usage: ["", "--repair [--yes]"],
  about: [
    "A storage never goes back in time: where the clock was ahead once and was set",
    "right, it stays ahead by the difference. Limits, leases and delays go by that;",
    "dates that people give and see do not. --repair moves all that is kept by the",
    "difference, in one step: what is counted, held and waited for stays so.",
    "Workers may run. It takes longer the more jobs are kept, and all wait meanwhile.",
    "At a terminal it is done only with --yes.",
  ].join("\n"),
  options: {
    ...DATABASE,
    repair: { help: "take the difference back" },
    yes: { short: "y", help: "do it" },
  },
  words: "none",
  run: (context) =>
    withDatabase(context, async ({ clock: kept }) => {
      const { args, io } = context;
      const { wall, offsetMs } = await kept.read();
      if (!args.flag("repair")) {
        answer(
          context,
          { wall: instant(wall), offsetMs },
          () => `${instant(wall)}, ${wordsOf(offsetMs)}\n${adviceOn(offsetMs)}`,
        );
        return 0;
      }
      if (Math.abs(offsetMs) < 1) {
        answer(context, { wall: instant(wall), offsetMs, repairedMs: 0 }, () => "nothing to repair\n");
        return 0;
      }
      if (io.interactive && !args.flag("yes")) {
        throw new Failure("SLUICE_UNCONFIRMED", `${wordsOf(offsetMs)}: say --yes to take that back`);
      }
      const repairedMs = await kept.repair();
      const after = await kept.read();
      answer(
        context,
        { wall: instant(after.wall), offsetMs: after.offsetMs, repairedMs },
        () => `repaired: ${wordsOf(offsetMs)} before, ${wordsOf(after.offsetMs)} now\n`,
      );
      return 0;
    }),
};

/** The difference between the storage's clock and the wall clock. */
function wordsOf(offsetMs: number): string {
  if (Math.abs(offsetMs) < 1) return "the storage goes by the wall clock";
  return `the storage is ${duration(Math.abs(offsetMs))} ${offsetMs > 0 ? "ahead of" : "behind"} the wall clock`;
}

const adviceOn = (offsetMs: number): string =>
  Math.abs(offsetMs) < OFFSET_MS ? "" : "`sluice clock --repair` takes that back\n";
