import { expect } from "chai";
import { createProgressReporter } from "../../../projection/cli/rebuild.ts";
import { BEFORE_FIRST_EVENT } from "../../../shared/eventstore/read-log.ts";

describe("the progress of a run through the log", () => {
  /**
   * Reports progress and returns the printed lines.
   *
   * @param moments seconds since the start, and the position reached at that time
   */
  function collectReports(endPosition: bigint, ...moments: [number, bigint][]): string[] {
    const lines: string[] = [];
    let now = 0;
    const onProgress = createProgressReporter(
      (text) => lines.push(text),
      endPosition,
      () => now,
    );
    for (const [seconds, lastReadPosition] of moments) {
      now = seconds * 1_000;
      onProgress({ lastReadPosition, eventCount: Math.max(0, Number(lastReadPosition)), waitsFor: null });
    }
    return lines;
  }

  it("the progress report starts at 0.0 % if the checkpoint is before the first event", () => {
    expect(collectReports(1_000n, [0, BEFORE_FIRST_EVENT], [1, BEFORE_FIRST_EVENT])).to.deep.equal([
      "0.0 % of the log, 0 events/s",
    ]);
  });

  it("the progress report shows no remaining time at the start of a run", () => {
    expect(collectReports(1_000_000n, [0, BEFORE_FIRST_EVENT], [2, 50n], [4, 200n])).to.deep.equal([
      "0.0 % of the log, 25 events/s",
      "0.0 % of the log, 50 events/s",
    ]);
  });

  it("the progress report shows the estimated remaining time in minutes or seconds", () => {
    expect(collectReports(1_000_000n, [0, 0n], [4, 20_000n], [10, 250_000n])).to.deep.equal([
      "2.0 % of the log, 5000 events/s, 3 min left",
      "25.0 % of the log, 25000 events/s, 30 s left",
    ]);
  });

  it("the estimate of the remaining time ignores events that earlier runs processed", () => {
    expect(collectReports(100n, [0, 50n], [5, 75n])).to.deep.equal(["75.0 % of the log, 5 events/s, 5 s left"]);
  });

  it("the progress report never exceeds 100 %, and an empty log counts as complete", () => {
    expect(collectReports(100n, [0, 0n], [5, 180n])).to.deep.equal(["100.0 % of the log, 36 events/s, 0 s left"]);
    expect(collectReports(BEFORE_FIRST_EVENT, [0, BEFORE_FIRST_EVENT], [1, BEFORE_FIRST_EVENT])).to.deep.equal([
      "100.0 % of the log, 0 events/s",
    ]);
  });
});
