// Gentle crawling: requests evenly spaced, 10 per minute (here 600 ms stand for the minute), and a smallest delay from
// one to the next as well. A site is crawled from its first page, each page leading to the next ones.
import assert from "node:assert/strict";
import { CompositeLimiter, DelayLimiter, EvenlySpacedRateLimiter, limit } from "sluice";
import { serve } from "../common/serve.ts";
import { mostInAnyWindow, smallestGap } from "../common/windows.ts";

const MINUTE = 600;

const LINKS: Readonly<Record<string, readonly string[]>> = {
  "/": ["/news", "/shop", "/about"],
  "/news": ["/", "/news/1", "/news/2", "/news/3"],
  "/shop": ["/shop/shoes", "/shop/hats", "/about"],
  "/about": ["/", "/about/us", "/about/you"],
};
const site = await serve((request, response) => response.end(JSON.stringify(LINKS[request.url ?? ""] ?? [])));

const crawlLimiter = new CompositeLimiter([
  new EvenlySpacedRateLimiter({ maxExecutions: 10, windowSizeInSeconds: MINUTE / 1000 }),
  new DelayLimiter(5), // at least 5 ms between starts
]);

const starts: number[] = [];
const read = limit(async (path: string) => {
  starts.push(performance.now());
  const response = await fetch(site.url + path);
  return (await response.json()) as string[];
}, crawlLimiter);

const found = new Set<string>();
async function crawl(path: string): Promise<void> {
  if (found.has(path)) return;
  found.add(path);
  await Promise.all((await read(path)).map((link) => crawl(link)));
}
await crawl("/");
await site.close();

console.log(`${found.size} pages: ${[...found].join(" ")}`);
console.log(`requests at least ${smallestGap(starts).toFixed(1)} ms apart`);
assert.equal(found.size, 11);
assert.ok(smallestGap(starts) >= MINUTE / 10);
assert.ok(mostInAnyWindow(starts, MINUTE) <= 10);
