// Wrap `fetch` once and call it with no worries: the requests go out one per window, the answers come back in order.
import assert from "node:assert/strict";
import { rateLimit } from "sluice";
import { serve } from "../common/serve.ts";

const WINDOW = 100;

const server = await serve((request, response) => response.end(JSON.stringify({ page: request.url })));
const urls = ["/one", "/two", "/three", "/four"].map((path) => server.url + path);

const begin = performance.now();
const slowFetch = rateLimit(fetch, WINDOW);
const raw = await Promise.all(urls.map((url) => slowFetch(url)));
const pages = await Promise.all(raw.map((response) => response.json()));
const took = performance.now() - begin;
await server.close();

console.log(pages);
console.log(`${urls.length} requests, one per ${WINDOW} ms: ${took.toFixed(0)} ms`);
assert.deepEqual(pages, [{ page: "/one" }, { page: "/two" }, { page: "/three" }, { page: "/four" }]);
assert.ok(took >= (urls.length - 1) * WINDOW);
