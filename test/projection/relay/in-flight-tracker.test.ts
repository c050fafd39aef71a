import { expect } from "chai";
import fc from "fast-check";
import { InFlightTracker } from "../../../projection/relay/in-flight-tracker.ts";

describe("tracking of events in flight", () => {
  it("the tracker starts at the checkpoint", () => {
    expect(new InFlightTracker(7n)).to.include({ settled: 7n, size: 0 });
  });

  it("skipped events advance the position at once if nothing is in flight", () => {
    const ledger = new InFlightTracker(-1n);
    ledger.skip(5n);
    expect(ledger.settled).to.equal(5n);
  });

  it("the position does not pass an unconfirmed message", () => {
    const ledger = new InFlightTracker(-1n);
    ledger.publish(1n);
    ledger.publish(2n)(2);
    ledger.skip(3n);
    ledger.settle(99);
    expect(ledger).to.include({ settled: -1n });
  });

  it("the position does not pass an unacknowledged message", () => {
    const ledger = new InFlightTracker(-1n);
    ledger.publish(1n)(11);
    ledger.skip(2n);
    ledger.publish(3n)(12);
    ledger.settle(11);
    expect(ledger.settled).to.equal(2n);
    ledger.settle(12);
    expect(ledger).to.include({ settled: 3n, size: 0 });
  });

  it("the position never passes a message in flight, in any order of confirmations", () => {
    const step = fc.record({ told: fc.boolean(), confirmed: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), fc.integer({ min: 0, max: 31 }), (steps, acked) => {
        const ledger = new InFlightTracker(-1n);
        steps.forEach(({ told, confirmed }, index) => {
          if (!told) ledger.skip(BigInt(index));
          else if (confirmed) ledger.publish(BigInt(index))(index + 1);
          else ledger.publish(BigInt(index));
        });
        ledger.settle(acked);
        const open = steps.findIndex(
          ({ told, confirmed }, index) => told && !(confirmed && index + 1 <= acked),
        );
        expect(ledger.settled).to.equal(BigInt((open < 0 ? steps.length : open) - 1));
      }),
    );
  });
});
