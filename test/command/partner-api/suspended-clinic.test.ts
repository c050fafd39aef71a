import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { closeClinic, suspendClinic } from "../../../command/operations/clinic-operations.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createPartnerWorld,
  createTestOperatorContext,
  sendRequest,
  startTestCommandService,
  type TestCommand,
} from "../../support/partner.ts";

describe("a partner at a clinic that is suspended or closed", () => {
  let command: TestCommand;

  before(async () => {
    command = await startTestCommandService();
  });
  after(() => command.stop());

  const statusCases = [
    ["suspended", suspendClinic],
    ["closed", closeClinic],
  ] as const;
  for (const [statusName, changeStatus] of statusCases) {
    it(`a partner cannot add data at a ${statusName} clinic, but can rotate secrets and revoke endpoints`, async () => {
      const world = await createPartnerWorld(command, "sandbox");
      const { clinicId, branchId, animalId, headers } = world;
      const send = (method: "POST" | "DELETE", path: string, body?: unknown) =>
        sendRequest(method, `${command.url}/sandbox/v1${path}`, { ...headers, "Idempotency-Key": randomUUID() }, body);
      const appointment = { branchId, animalId, scheduledAt: "2099-05-04T10:00:00Z" };
      const endpointInput = { url: "http://127.0.0.1:9/hook", events: ["appointment.created"] };
      const registrationResponse = await send("POST", "/webhook-endpoints", endpointInput);
      const endpointPath = `/webhook-endpoints/${registrationResponse.body.endpoint.id}`;
      await changeStatus(command.log, { clinicId, reason: "unpaid" }, createTestOperatorContext());

      await eventually("the service knows the clinic's new status", async () => {
        return (await send("POST", "/appointments", appointment)).status !== 201;
      });
      const refusedResponses = [
        await send("POST", "/appointments", appointment),
        await send("POST", "/webhook-endpoints", endpointInput),
        await send("POST", `${endpointPath}/deliveries/${randomUUID()}/replay`),
      ];
      for (const { status, body } of refusedResponses) {
        expect([status, body.error]).to.deep.equal([403, "clinic_not_operational"]);
      }
      const rotationResponse = await send("POST", `${endpointPath}/rotate-secret`);
      expect([
        rotationResponse.status,
        rotationResponse.body.secret === registrationResponse.body.secret,
      ]).to.deep.equal([200, false]);
      for (let round = 0; round < 2; round += 1) {
        const revocationResponse = await send("DELETE", endpointPath);
        expect([revocationResponse.status, revocationResponse.body.endpoint.status]).to.deep.equal([200, "revoked"]);
      }
    });
  }
});
