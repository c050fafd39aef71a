import { expect } from "chai";
import { judgeOutcomes } from "../../../projection/engine/fuse.ts";
import type { ProjectionRun } from "../../../projection/engine/projection-options.ts";
import type { SubscriptionItem } from "../../../shared/eventstore/subscription.ts";

const TYPE = "CustomerDetailsChanged";

type Part = [outcome: "good" | "bad", count: number];

/** Creates events of one type, each in its own stream. Quarantines the streams of the bad events. */
function createLog(...parts: Part[]) {
  const outcomes = parts.flatMap(([outcome, count]) => Array<Part[0]>(count).fill(outcome));
  const items = outcomes.map((_, index) => {
    const position = BigInt(index);
    return { kind: "event", position, event: { stream: `customer-${index}`, revision: 0n, type: TYPE, position } };
  });
  const quarantinedStreams = new Map(
    items.flatMap(({ position, event: { stream } }, index) =>
      outcomes[index] === "bad" ? [[stream, { revision: 0n, position, eventType: TYPE, cause: "bad" }]] : [],
    ),
  );
  return { items: items as unknown as SubscriptionItem[], quarantinedStreams };
}

/** Processes a log in batches. @returns the position at which the fuse blows; undefined if it does not blow */
function findBlownPosition(batchSize: number, confirmedPosition: bigint | undefined, ...parts: Part[]) {
  const { items, quarantinedStreams } = createLog(...parts);
  const confirmedTypes = new Map(confirmedPosition === undefined ? [] : [[TYPE, confirmedPosition]]);
  const outcomes = new Map<string, string>();
  const run = { quarantinedStreams, confirmedTypes, outcomes } as unknown as ProjectionRun;
  for (let start = 0; start < items.length; start += batchSize) {
    const { changedOutcomes, blownFuse } = judgeOutcomes(run, items.slice(start, start + batchSize));
    if (blownFuse) return Number(blownFuse.failedEventPosition?.position);
    for (const [type, typeOutcomes] of changedOutcomes) outcomes.set(type, typeOutcomes);
  }
  return undefined;
}

describe("the fuse of an event type", () => {
  const cases: { title: string; parts: Part[]; confirmedPosition?: bigint; blownPosition: number | undefined }[] = [
    { title: "stays if only 20 streams fail", parts: [["bad", 20]], blownPosition: undefined },
    { title: "blows at the 21st stream", parts: [["bad", 30]], blownPosition: 20 },
    {
      title: "stays if a tenth of the events fails",
      parts: [
        ["good", 270],
        ["bad", 30],
      ],
      blownPosition: undefined,
    },
    {
      title: "blows if more than a tenth fails",
      parts: [
        ["good", 270],
        ["bad", 31],
      ],
      blownPosition: 300,
    },
    {
      title: "counts only the last 1,000 events",
      parts: [
        ["good", 5_000],
        ["bad", 101],
      ],
      blownPosition: 5_100,
    },
    {
      title: "permits 20 streams after a confirmation",
      parts: [["bad", 50]],
      confirmedPosition: 20n,
      blownPosition: 41,
    },
  ];
  for (const { title, parts, confirmedPosition, blownPosition } of cases)
    it(`the fuse ${title}, in batches of any size`, () => {
      for (const batchSize of [1, 7, 10_000])
        expect(findBlownPosition(batchSize, confirmedPosition, ...parts)).to.equal(blownPosition);
    });
});
