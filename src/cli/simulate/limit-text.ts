import { UsageError } from "../failures.ts";
import { quoted } from "../arguments.ts";

/** A limit as in `defineLimits`; it is checked there. */
export interface NamedDefinition {
  readonly name: string;
  readonly definition: Readonly<Record<string, unknown>>;
}

interface Part {
  readonly form: RegExp;
  readonly read: (found: RegExpExecArray) => Readonly<Record<string, unknown>>;
}

const DURATION = String.raw`\d+(?:\.\d+)?(?:ms|s|m|h|d)`;
const COUNT = String.raw`\d[\d,_]*`;

const count = (text: string) => Number(text.replaceAll(/[,_]/g, ""));
const words = (text: string) => text.trim().split(/\s+/);
const weightOf = (name: string | undefined) => (name === undefined ? {} : { weight: name });

/** What may stand behind the name, in any order, with commas between. */
const PARTS: readonly Part[] = [
  {
    form: new RegExp(`^(${COUNT})(?: (\\S+))? per (${DURATION})$`),
    read: ([, max, weight, per]) => ({ max: count(max!), per, ...weightOf(weight) }),
  },
  {
    form: new RegExp(`^(${COUNT})(?: (\\S+))? at a time$`),
    read: ([, concurrency, weight]) => ({ concurrency: count(concurrency!), ...weightOf(weight) }),
  },
  { form: new RegExp(`^every (${DURATION})$`), read: ([, every]) => ({ every }) },
  { form: new RegExp(`^guard (${DURATION})$`), read: ([, guard]) => ({ guard }) },
  { form: new RegExp(`^estimate (${COUNT})$`), read: ([, estimate]) => ({ estimate: count(estimate!) }) },
  { form: /^types? (.+)$/, read: ([, types]) => ({ types: words(types!) }) },
  { form: /^queues? (.+)$/, read: ([, queues]) => ({ queues: words(queues!) }) },
  { form: /^per group$/, read: () => ({ by: "group" }) },
  { form: /^(?:by|each) (.+)$/, read: ([, by]) => ({ by: by!.includes(" ") ? words(by!) : by }) },
];

const FORMS =
  '"120 per 1m", "200,000 tokens per 1m", "2 at a time", "every 500ms", "types a b", "queues q", "by group", "by tenant model"';

/**
 * Reads `mail: 120 per 1m, 5 at a time, types send_email send_digest`. Without a word about which jobs it holds for all.
 */
export function readLimitText(text: string): NamedDefinition {
  const [, name, rest] = /^\s*([^:\s][^:]*?)\s*:\s*(.*?)\s*$/s.exec(text) ?? [];
  if (name === undefined || rest === undefined || rest === "") {
    throw new UsageError(`expected --limit to be a name, a colon and what it allows, got ${quoted(text)}`);
  }
  const definition: Record<string, unknown> = {};
  // A comma within a number has a digit on both sides and no space.
  for (const part of rest.split(/,(?!\d{3}\b)/).map((one) => one.trim().replaceAll(/\s+/g, " "))) {
    const found = PARTS.map(({ form, read }) => ({ match: form.exec(part), read })).find(({ match }) => match !== null);
    if (found === undefined) throw new UsageError(`--limit ${quoted(name)}: cannot read ${quoted(part)}; try ${FORMS}`);
    for (const [key, value] of Object.entries(found.read(found.match!))) {
      if (Object.hasOwn(definition, key) && definition[key] !== value) {
        throw new UsageError(`--limit ${quoted(name)}: ${quoted(part)} says \`${key}\` again`);
      }
      definition[key] = value;
    }
  }
  const scoped = ["types", "queues", "by"].some((key) => Object.hasOwn(definition, key));
  return { name, definition: scoped ? definition : { ...definition, all: true } };
}
