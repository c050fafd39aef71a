import { expect } from "chai";
import { createLinkCode, withdrawLink } from "../../../command/operations/animal-link-operations.ts";
import { revokeApplication, revokeCredential } from "../../../command/operations/application-operations.ts";
import { suspendClinic } from "../../../command/operations/clinic-operations.ts";
import { revokeInstallation } from "../../../command/operations/installation-operations.ts";
import { createLinkCodes } from "../../../command/operations/link-codes.ts";
import { revokeMembership } from "../../../command/operations/people-operations.ts";
import { recordErasure } from "../../../command/operations/personal-data/record-erasure.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createPartnerWorld,
  createTestOperatorContext,
  type PartnerWorld,
  startTestCommandService,
} from "../../support/partner.ts";
import { useResource } from "../../support/resources.ts";
import { getTestServers } from "../../support/stack.ts";
import { postAppointment, spawnCommand } from "./command-app.ts";

/** Time after which a revocation must be effective. Milliseconds. */
const MAX_DELAY_MS = 1_000;

describe("revocations with two command processes", () => {
  const command = useResource(startTestCommandService);
  let secondCommand: Awaited<ReturnType<typeof spawnCommand>>;
  let urls: string[];

  before(async () => {
    secondCommand = await spawnCommand(command, (await getTestServers()).eventstoreUrl);
    urls = [command.url, secondCommand.url];
  });

  const context = createTestOperatorContext();
  const changes: [string, [status: number, error: string], (world: PartnerWorld) => Promise<unknown>][] = [
    ["a revoked credential", [401, "invalid_token"], (world) => revokeCredential(command.log, world, context)],
    [
      "a revoked application",
      [401, "invalid_token"],
      (world) => revokeApplication(command.log, { ...world, reason: null }, context),
    ],
    [
      "a revoked installation",
      [403, "installation_denied"],
      (world) => revokeInstallation(command.log, { ...world, reason: null }, context),
    ],
    [
      "a suspended clinic",
      [403, "clinic_not_operational"],
      ({ clinicId }) => suspendClinic(command.log, { clinicId, reason: "unpaid" }, context),
    ],
  ];
  for (const [caseName, refusal, revoke] of changes) {
    it(`every process refuses requests with ${caseName} after at most a second`, async () => {
      const world = await createPartnerWorld(command);
      for (const url of urls) expect((await postAppointment(url, world)).status).to.equal(201);
      await revoke(world);
      const changedAt = performance.now();
      for (const url of urls) {
        await eventually("the request is refused", async () => {
          const sentAt = performance.now();
          const response = await postAppointment(url, world);
          if (response.status === 201) expect(sentAt - changedAt).to.be.below(MAX_DELAY_MS);
          else expect([response.status, response.body.error]).to.deep.equal(refusal);
          return response.status !== 201;
        });
      }
    });
  }

  it("access of a deleted clinic can be revoked, a consent withdrawn and a customer erased", async () => {
    const { log } = command;
    const world = await createPartnerWorld(command);
    const linkCodes = createLinkCodes(JSON.parse(PERSONAL_DATA_KEYS));
    const code = { ...world, covers: "appointments_write", validMinutes: 60 } as const;
    await createLinkCode({ log, linkCodes }, code, context);
    const client = connectEventStore((await getTestServers()).eventstoreUrl, "test");
    await client.tombstoneStream(`clinic-${world.clinicId}`);
    await client.dispose();
    const { state: consent } = await withdrawLink(log, { ...world, requestedBy: "owner" }, context);
    expect(consent?.applications[world.applicationId]).to.include({ code: null });
    const { state } = await revokeInstallation(log, { ...world, reason: null }, context);
    expect(state?.status).to.equal("revoked");
    const { state: membership } = await revokeMembership(log, { ...world, reason: "Left" }, context);
    expect(membership?.status).to.equal("revoked");
    const { customerId: id, clinicId } = world;
    const erasure = { id, clinicId, categories: ["contact" as const], cause: "request" as const, reason: "Request 17" };
    expect((await recordErasure.customer(log, erasure, context)).events).to.have.length(1);
  });
});
