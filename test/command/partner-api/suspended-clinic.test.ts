import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { closeClinic, suspendClinic } from "../../../command/operations/clinic-operations.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createPartnerWorld,
  operatorContext,
  sendRequest,
  startTestCommand,
  type TestCommand,
} from "../../support/partner.ts";

describe("a partner at a clinic that is suspended or closed", () => {
  let command: TestCommand;

  before(async () => {
    command = await startTestCommand();
  });
  after(() => command.stop());

  const states = [
    ["suspended", suspendClinic],
    ["closed", closeClinic],
  ] as const;
  for (const [what, end] of states) {
    it(`a partner cannot add data at a ${what} clinic, but can rotate secrets and revoke endpoints`, async () => {
      const world = await createPartnerWorld(command, "sandbox");
      const { clinicId, branchId, animalId, headers } = world;
      const at = (method: "POST" | "DELETE", path: string, body?: unknown) =>
        sendRequest(method, `${command.url}/sandbox/v1${path}`, { ...headers, "Idempotency-Key": randomUUID() }, body);
      const appointment = { branchId, animalId, scheduledAt: "2099-05-04T10:00:00Z" };
      const hook = { url: "http://127.0.0.1:9/hook", events: ["appointment.created"] };
      const made = await at("POST", "/webhook-endpoints", hook);
      const endpoint = `/webhook-endpoints/${made.body.endpoint.id}`;
      await end(command.log, { clinicId, reason: "unpaid" }, operatorContext());

      await eventually("the service knows the clinic's new status", async () => {
        return (await at("POST", "/appointments", appointment)).status !== 201;
      });
      const refused = [
        await at("POST", "/appointments", appointment),
        await at("POST", "/webhook-endpoints", hook),
        await at("POST", `${endpoint}/deliveries/${randomUUID()}/replay`),
      ];
      for (const { status, body } of refused) {
        expect([status, body.error]).to.deep.equal([403, "clinic_not_operational"]);
      }
      const rotated = await at("POST", `${endpoint}/rotate-secret`);
      expect([rotated.status, rotated.body.secret === made.body.secret]).to.deep.equal([200, false]);
      for (let round = 0; round < 2; round += 1) {
        const revoked = await at("DELETE", endpoint);
        expect([revoked.status, revoked.body.endpoint.status]).to.deep.equal([200, "revoked"]);
      }
    });
  }
});
