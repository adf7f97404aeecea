#!/usr/bin/env node
// The binary. It checks the version before it loads anything else, because an old Node could not parse the rest.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);

if (major < 22 || (major === 22 && minor < 13)) {
  process.stderr.write(`sluice needs Node 22.13 or newer; this is ${process.versions.node}.\n`);
  process.exitCode = 1;
} else {
  const { processIo } = await import("./io.ts");
  const io = processIo();
  const { run } = await import("./run.ts");
  process.exitCode = await run(process.argv.slice(2), io);
}
