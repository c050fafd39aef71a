import { expect } from "chai";
import type { EventMessage } from "../../../../projection/relay/message.ts";
import { createInOrderFilter } from "../../../../projection/webhooks/match/ordering.ts";
import { deriveWebhookDeliveryId } from "../../../../shared/domain/events/ids.ts";

const endpointId = "00000000-0000-4000-8000-00000000000e";

/** Creates the message of an event whose position equals its revision, times ten. */
function createEvent(revision: number): EventMessage {
  const toEvent = (number: number) => ({
    id: `00000000-0000-4000-8000-00000000000${number}`,
    position: BigInt(10 * number),
  });
  const { id, position } = toEvent(revision);
  const previousEvent = revision === 0 ? null : toEvent(revision - 1);
  return { position, revision: BigInt(revision), previousEvent, body: { id } } as EventMessage;
}

const check = (
  revision: number,
  {
    batch = [],
    checkpoint = -1n,
    deliveriesOf = [],
  }: { batch?: number[]; checkpoint?: bigint; deliveriesOf?: number[] } = {},
) => {
  const event = createEvent(revision);
  const deliveryIds = new Set(deliveriesOf.map((n) => deriveWebhookDeliveryId(createEvent(n).body.id, endpointId)));
  return createInOrderFilter([...batch.map(createEvent), event], { checkpoint, deliveryIds })({ event, endpointId });
};

describe("the check that all earlier events of an appointment are matched", () => {
  it("the first event of an appointment is in order", () => {
    expect(check(0)).to.equal(true);
  });

  it("an event is in order once the relay's checkpoint has reached the event before it", () => {
    expect(check(2, { checkpoint: 9n })).to.equal(false);
    expect(check(2, { checkpoint: 10n })).to.equal(true);
  });

  it("an event is in order if the event before it has a delivery to the same endpoint", () => {
    expect(check(2, { deliveriesOf: [1] })).to.equal(true);
    expect(check(2, { deliveriesOf: [0] })).to.equal(false);
  });

  it("an event that already has a delivery to the endpoint is in order", () => {
    expect(check(2, { deliveriesOf: [2] })).to.equal(true);
  });

  it("an event is in order if its batch contains all earlier events that are not matched", () => {
    expect(check(3, { batch: [2, 1], checkpoint: 0n })).to.equal(true);
    expect(check(3, { batch: [2, 1, 0] })).to.equal(true);
    expect(check(3, { batch: [1], checkpoint: 0n })).to.equal(false);
    expect(check(3, { batch: [2, 1] })).to.equal(false);
  });
});
