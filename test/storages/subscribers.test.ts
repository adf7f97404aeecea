import { describe, expect, it } from "vitest";
import type { JobEvent } from "../../src/core/events.ts";
import { Subscribers } from "../../src/storage/subscribers.ts";

const event = (id: string, queue = "q"): JobEvent => ({ event: "added", queue, type: "t", id });

describe("subscribers", () => {
  it("subscribers are notified once a step is over, and once for several wake-ups", () => {
    const subscribers = new Subscribers();
    const received: string[] = [];
    subscribers.add({ queue: "q", wake: () => received.push("wake"), event: ({ event: name }) => received.push(name) });
    subscribers.wake("q", false);
    subscribers.event(event("a"));
    subscribers.wake("q", false);
    expect(received).toEqual([]);
    subscribers.notify();
    expect(received).toEqual(["added", "wake"]);
    subscribers.notify();
    expect(received.length).toBe(2);
  });

  it("a subscriber may start a job if any part of the step said so, for each queue by itself", () => {
    const subscribers = new Subscribers();
    const received: (readonly [string, boolean])[] = [];
    subscribers.add({ queue: "q", wake: (mayStart) => received.push(["q", mayStart]) });
    subscribers.add({ queue: "r", wake: (mayStart) => received.push(["r", mayStart]) });
    subscribers.wake("q", false);
    subscribers.wake("q", true);
    subscribers.wake("r", false);
    subscribers.wake("q", false);
    subscribers.notify();
    expect(received).toEqual([
      ["q", true],
      ["r", false],
    ]);
    subscribers.wake("q", false);
    subscribers.notify();
    expect(received.at(-1)).toEqual(["q", false]);
  });

  it("subscribers receive all events in the same order, even those that one of them causes", () => {
    const subscribers = new Subscribers();
    const first: string[] = [];
    const second: string[] = [];
    subscribers.add({
      queue: null,
      event: (received) => {
        if (!("id" in received)) return;
        first.push(received.id);
        if (received.id === "a") {
          subscribers.event(event("c"));
          subscribers.notify();
        }
      },
    });
    subscribers.add({ queue: null, event: (received) => "id" in received && second.push(received.id) });
    subscribers.event(event("a"));
    subscribers.event(event("b"));
    subscribers.notify();
    expect([first, second]).toEqual([
      ["a", "b", "c"],
      ["a", "b", "c"],
    ]);
  });

  it("the list knows whether a subscriber wants events", () => {
    const subscribers = new Subscribers();
    expect(subscribers.hearEvents).toBe(false);
    const unsubscribe = subscribers.add({ queue: "q", event: () => {} });
    subscribers.add({ queue: "q", wake: () => {} });
    expect(subscribers.hearEvents).toBe(true);
    unsubscribe();
    expect(subscribers.hearEvents).toBe(false);
  });

  it("a subscriber may be added twice and removed once, and may be an instance of a class", () => {
    class Counter {
      readonly queue = "q";
      count = 0;
      wake(): void {
        this.count += 1;
      }
    }
    const counter = new Counter();
    const subscribers = new Subscribers();
    subscribers.add(counter);
    const unsubscribe = subscribers.add(counter);
    subscribers.wake("q", false);
    subscribers.notify();
    expect(counter.count).toBe(2);
    unsubscribe();
    unsubscribe();
    subscribers.wake("q", false);
    subscribers.notify();
    expect(counter.count).toBe(3);
  });

  it("a subscriber receives nothing from before it was added, and a list of ids of its own", () => {
    const subscribers = new Subscribers();
    subscribers.event(event("before"));
    subscribers.wake("q", false);
    subscribers.cancelled("q", "before");
    const received: unknown[] = [];
    subscribers.add({
      queue: "q",
      event: (one) => received.push(one),
      wake: () => received.push("wake"),
      cancelled: (ids) => received.push((ids as string[]).splice(0)),
    });
    subscribers.add({ queue: "q", cancelled: (ids) => received.push(ids) });
    subscribers.notify();
    expect(received).toEqual([]);
    subscribers.cancelled("q", "a");
    subscribers.cancelled("q", "b");
    subscribers.notify();
    expect(received).toEqual([
      ["a", "b"],
      ["a", "b"],
    ]);
  });
});
