import { describe, expect, it } from "vitest";
import { judge, summary } from "../../bench/exactness/judge.ts";

const limit = { max: 2, windowMs: 100 };

describe("the judge of the exactness benchmark", () => {
  it("the judge counts windows that begin with a call and have one too many", () => {
    expect(judge([0, 0, 100, 100, 200], limit, 0)).toMatchObject({ worst: 2, over: 0, windows: 3 });
    expect(judge([99, 0, 60, 161], limit, 0)).toMatchObject({ worst: 3, over: 1, windows: 2 });
    expect(judge([0, 99.999, 99.9999], limit, 0)).toMatchObject({ worst: 3, over: 1, windows: 1 });
    expect(judge([5], limit, 0)).toMatchObject({ worst: 1, over: 0, windows: 0 });
  });

  it("the judge measures the use of the allowance after the warm-up, and windows from the first call on", () => {
    const calls = [0, 0, 0, 200, 200, 310, 310, 410];
    expect(judge(calls, limit, 150)).toMatchObject({ over: 1, idealMs: 200, tookMs: 210, lateness: [10, 10, 0] });
  });

  it("the judge takes several runs together", () => {
    const runs = [judge([0, 0, 100, 100, 200], limit, 0), judge([0, 0, 0, 200, 200], limit, 0)];
    expect(summary(runs)).toEqual({ worst: 3, over: 1, windows: 6, use: 1, late: 0 });
  });
});
