/** Imported first by every script: one clear sentence instead of a syntax error from deep inside. */
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  console.error(
    `These scripts run TypeScript as it is, which takes Node 22.18 or newer; this is ${process.versions.node}. ` +
      "Run them through npm (`npm test`, `npm start`): `npm ci` brings a Node of its own.",
  );
  process.exit(1);
}
