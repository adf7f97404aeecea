import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { House } from "./house.ts";

/** The outside service: it records when each call arrives. Prints its port on standard output. */
export async function echo({ recorder }: House): Promise<void> {
  const server = createServer((call, response) => {
    const { searchParams } = new URL(call.url ?? "/", "http://127.0.0.1");
    const limiter = searchParams.get("limiter") ?? "";
    const job = searchParams.get("job") ?? "";
    recorder.write({ op: "arrive", phase: "info", limiter, job, token: Number(searchParams.get("token")) });
    response.end("ok");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
  process.on("SIGTERM", () => process.exit(0));
}
