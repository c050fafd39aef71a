import { expect } from "chai";
import fc from "fast-check";
import { InFlightTracker } from "../../../projection/relay/in-flight-tracker.ts";
import { BEFORE_FIRST_EVENT } from "../../../shared/eventstore/read-log.ts";

describe("tracking of events in flight", () => {
  it("a new tracker returns the initial checkpoint", () => {
    expect(new InFlightTracker(7n)).to.include({ checkpoint: 7n, size: 0 });
  });

  it("skipped events advance the checkpoint immediately if no message is in flight", () => {
    const tracker = new InFlightTracker(BEFORE_FIRST_EVENT);
    tracker.addSkippedEvent(5n);
    expect(tracker.checkpoint).to.equal(5n);
  });

  it("the checkpoint does not pass a message that NATS has not confirmed", () => {
    const tracker = new InFlightTracker(BEFORE_FIRST_EVENT);
    tracker.addPublishedEvent(1n);
    tracker.addPublishedEvent(2n)(2);
    tracker.addSkippedEvent(3n);
    tracker.acknowledge(99);
    expect(tracker).to.include({ checkpoint: BEFORE_FIRST_EVENT });
  });

  it("the checkpoint does not pass a message that the consumer has not acknowledged", () => {
    const tracker = new InFlightTracker(BEFORE_FIRST_EVENT);
    tracker.addPublishedEvent(1n)(11);
    tracker.addSkippedEvent(2n);
    tracker.addPublishedEvent(3n)(12);
    tracker.acknowledge(11);
    expect(tracker.checkpoint).to.equal(2n);
    tracker.acknowledge(12);
    expect(tracker).to.include({ checkpoint: 3n, size: 0 });
  });

  it("an event that was quarantined before does not move the checkpoint", () => {
    const tracker = new InFlightTracker(1n);
    const record = { position: 0n, since: "" };
    tracker.addPublishedEvent(undefined, record)(11);
    expect(tracker.acknowledge(11)).to.deep.equal([record]);
    expect(tracker.checkpoint).to.equal(1n);
    tracker.addPublishedEvent(2n)(12);
    tracker.addPublishedEvent(undefined, record)(13);
    tracker.acknowledge(12);
    expect(tracker).to.include({ checkpoint: 2n, size: 1 });
    tracker.acknowledge(13);
    expect(tracker).to.include({ checkpoint: 2n, size: 0 });
  });

  it("the checkpoint never passes a message in flight, in any order of confirmations", () => {
    const stepArbitrary = fc.record({ isPublished: fc.boolean(), isConfirmed: fc.boolean() });
    fc.assert(
      fc.property(fc.array(stepArbitrary, { maxLength: 30 }), fc.integer({ min: 0, max: 31 }), (steps, ackedCount) => {
        const tracker = new InFlightTracker(BEFORE_FIRST_EVENT);
        steps.forEach(({ isPublished, isConfirmed }, index) => {
          if (!isPublished) tracker.addSkippedEvent(BigInt(index));
          else if (isConfirmed) tracker.addPublishedEvent(BigInt(index))(index + 1);
          else tracker.addPublishedEvent(BigInt(index));
        });
        tracker.acknowledge(ackedCount);
        const openIndex = steps.findIndex(
          ({ isPublished, isConfirmed }, index) => isPublished && !(isConfirmed && index + 1 <= ackedCount),
        );
        expect(tracker.checkpoint).to.equal(BigInt((openIndex < 0 ? steps.length : openIndex) - 1));
      }),
    );
  });
});
