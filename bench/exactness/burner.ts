// Keeps a processor busy until it is told to end. Now and then it looks whether whoever started it is still there.
const SLICE_MS = 50;

function burn(): void {
  const end = performance.now() + SLICE_MS;
  while (performance.now() < end);
  setImmediate(burn);
}

process.on("disconnect", () => process.exit());
burn();
