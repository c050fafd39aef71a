import { expect } from "chai";
import { rotateSecret } from "../../../command/operations/webhook-endpoint-operations.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { createTestOperatorContext } from "../../support/partner.ts";
import { startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../../support/webhook-libraries.ts";
import { createWorld } from "./world.ts";

describe("webhooks after a loss of the keys that encrypt webhook secrets", () => {
  const world = useResource(createWorld);
  const receiver = useResource(startReceiver);

  it("webhooks fail with `not_signed` until an operator rotates the secret, and can then be replayed", async () => {
    const endpoint = await world.registerEndpoint(receiver.url);
    const secretBox = createSecretBox({ current: "new", keys: { new: Buffer.alloc(32, 8).toString("base64") } });
    world.startAll({ secretReader: secretBox });
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    const failedDelivery = await world.awaitStatus(eventId, endpoint, "failed");
    expect(new Set(failedDelivery.attempts.map(({ error }) => error))).to.deep.equal(new Set(["not_signed"]));
    expect(receiver.requests).to.deep.equal([]);

    const { endpointId, applicationId, clinicId } = endpoint;
    const owner = { applicationId, clinicId, environment: "production" as const };
    const request = { endpointId, owner, isLeaked: true };
    const { secret } = await rotateSecret({ ...world, secretBox }, request, createTestOperatorContext());
    await world.requestReplay(eventId, endpoint);
    await world.awaitStatus(eventId, endpoint, "delivered");
    expect(listAcceptingLibraries(secret, receiver.requests[0]!)).to.deep.equal(webhookLibraryNames);
  });
});
