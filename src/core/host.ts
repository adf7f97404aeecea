/** Where this process runs, as the registry shows it. null: not known, as in a browser. */
export interface Host {
  readonly host: string | null;
  readonly pid: number | null;
}

/** What Node, Bun and Deno offer without an import, so that bundles for browsers stay free of their modules. */
interface ServerGlobals {
  readonly process?: {
    readonly pid?: unknown;
    readonly getBuiltinModule?: (name: string) => { readonly hostname?: () => unknown } | undefined;
  };
}

const LONGEST_HOST = 255;

export function hostOf(globals: object = globalThis): Host {
  const { process: own } = globals as ServerGlobals;
  const pid = own?.pid;
  return { host: hostName(own), pid: typeof pid === "number" && Number.isSafeInteger(pid) ? pid : null };
}

function hostName(own: ServerGlobals["process"]): string | null {
  try {
    const name = own?.getBuiltinModule?.("node:os")?.hostname?.();
    // As every storage can keep it.
    return typeof name === "string" && name !== ""
      ? name.toWellFormed().replaceAll("\u0000", "").slice(0, LONGEST_HOST)
      : null;
  } catch {
    return null;
  }
}
