import { expect } from "chai";
import { recoverDeliveries } from "../../../command/operations/recover-deliveries.ts";
import { rotateSecret } from "../../../command/operations/webhook-endpoint-operations.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { eventually } from "../../support/eventually.ts";
import { createTestOperatorContext } from "../../support/partner.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../../support/webhook-libraries.ts";
import { createWorld, type World } from "./world.ts";

describe("webhooks after a loss of the keys that encrypt webhook secrets", () => {
  let world: World;
  let receiver: Receiver;

  before(async () => {
    world = await createWorld();
    receiver = await startReceiver();
  });
  after(async () => {
    await world.close();
    await receiver.close();
  });

  it("webhooks fail with `not_signed` until an operator rotates the secret, and can then be recovered", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const secretBox = createSecretBox({ current: "new", keys: { new: Buffer.alloc(32, 8).toString("base64") } });
    world.startAll({ secretReader: secretBox });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    const failedDelivery = await world.awaitStatus(eventId, endpoint, "failed");
    expect(new Set(failedDelivery.attempts.map(({ error }) => error))).to.deep.equal(new Set(["not_signed"]));
    expect(receiver.requests).to.deep.equal([]);

    const { endpointId, applicationId, clinicId } = endpoint;
    const owner = { applicationId, clinicId, environment: "production" as const };
    const context = createTestOperatorContext();
    const { secret } = await rotateSecret({ ...world, secretBox }, { endpointId, owner, isLeaked: true }, context);
    const filter = { endpointId, since: 0, until: undefined, isDryRun: false };
    await eventually("the recovery", async () => {
      const { requested } = await recoverDeliveries(world, filter, context, () => undefined);
      return requested === 1;
    });
    await world.awaitStatus(eventId, endpoint, "delivered");
    expect(listAcceptingLibraries(secret, receiver.requests[0]!)).to.deep.equal(webhookLibraryNames);
  });
});
