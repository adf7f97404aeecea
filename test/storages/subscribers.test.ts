import { describe, expect, it } from "vitest";
import type { JobEvent } from "../../src/core/events.ts";
import { Subscribers } from "../../src/storage/subscribers.ts";

const event = (id: string, queue = "q"): JobEvent => ({ event: "added", queue, type: "t", id });

describe("subscribers", () => {
  it("are told once a step is over, and one wake is enough", () => {
    const subscribers = new Subscribers();
    const heard: string[] = [];
    subscribers.add({ queue: "q", wake: () => heard.push("wake"), event: ({ event: name }) => heard.push(name) });
    subscribers.wake("q", false);
    subscribers.event(event("a"));
    subscribers.wake("q", false);
    expect(heard).toEqual([]);
    subscribers.notify();
    expect(heard).toEqual(["added", "wake"]);
    subscribers.notify();
    expect(heard.length).toBe(2);
  });

  it("hear that something is news if any part of a step was, each queue of its own", () => {
    const subscribers = new Subscribers();
    const heard: (readonly [string, boolean])[] = [];
    subscribers.add({ queue: "q", wake: (news) => heard.push(["q", news]) });
    subscribers.add({ queue: "r", wake: (news) => heard.push(["r", news]) });
    subscribers.wake("q", false);
    subscribers.wake("q", true);
    subscribers.wake("r", false);
    subscribers.wake("q", false);
    subscribers.notify();
    expect(heard).toEqual([
      ["q", true],
      ["r", false],
    ]);
    subscribers.wake("q", false);
    subscribers.notify();
    expect(heard.at(-1)).toEqual(["q", false]);
  });

  it("hear everything in the same order, even what one of them brings about", () => {
    const subscribers = new Subscribers();
    const first: string[] = [];
    const second: string[] = [];
    subscribers.add({
      queue: null,
      event: (heard) => {
        if (!("id" in heard)) return;
        first.push(heard.id);
        if (heard.id === "a") {
          subscribers.event(event("c"));
          subscribers.notify();
        }
      },
    });
    subscribers.add({ queue: null, event: (heard) => "id" in heard && second.push(heard.id) });
    subscribers.event(event("a"));
    subscribers.event(event("b"));
    subscribers.notify();
    expect([first, second]).toEqual([
      ["a", "b", "c"],
      ["a", "b", "c"],
    ]);
  });

  it("know whether anybody wants events", () => {
    const subscribers = new Subscribers();
    expect(subscribers.hearEvents).toBe(false);
    const leave = subscribers.add({ queue: "q", event: () => {} });
    subscribers.add({ queue: "q", wake: () => {} });
    expect(subscribers.hearEvents).toBe(true);
    leave();
    expect(subscribers.hearEvents).toBe(false);
  });

  it("may come twice and leave once, and may be of a class", () => {
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
    const leave = subscribers.add(counter);
    subscribers.wake("q", false);
    subscribers.notify();
    expect(counter.count).toBe(2);
    leave();
    leave();
    subscribers.wake("q", false);
    subscribers.notify();
    expect(counter.count).toBe(3);
  });

  it("do not hear what happened before they came, and each gets ids of its own", () => {
    const subscribers = new Subscribers();
    subscribers.event(event("before"));
    subscribers.wake("q", false);
    subscribers.cancelled("q", "before");
    const heard: unknown[] = [];
    subscribers.add({
      queue: "q",
      event: (one) => heard.push(one),
      wake: () => heard.push("wake"),
      cancelled: (ids) => heard.push((ids as string[]).splice(0)),
    });
    subscribers.add({ queue: "q", cancelled: (ids) => heard.push(ids) });
    subscribers.notify();
    expect(heard).toEqual([]);
    subscribers.cancelled("q", "a");
    subscribers.cancelled("q", "b");
    subscribers.notify();
    expect(heard).toEqual([
      ["a", "b"],
      ["a", "b"],
    ]);
  });
});
