// The demo for any Node: an old one cannot even read TypeScript, and is told so here in one sentence.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);

if (major < 22 || (major === 22 && minor < 13)) {
  console.error(`The demo needs Node 22.13 or newer; this is ${process.versions.node}. \`npm start\` brings its own.`);
  process.exitCode = 1;
} else if (!process.features.typescript) {
  console.error(
    `Node ${process.versions.node} reads TypeScript only when told to: node --experimental-strip-types examples/demo/start.js`,
  );
  process.exitCode = 1;
} else {
  await import("./main.ts");
}
