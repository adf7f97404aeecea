// Keeps a processor busy until it is killed. At intervals it checks whether its parent process still runs.
const SLICE_MS = 50;

function burn(): void {
  const end = performance.now() + SLICE_MS;
  while (performance.now() < end);
  setImmediate(burn);
}

process.on("disconnect", () => process.exit());
burn();
