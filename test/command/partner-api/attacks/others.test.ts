import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { approveWebhookOrigin } from "../../../../command/operations/application-operations.ts";
import { ask, operatorContext } from "../../../support/partner.ts";
import { expectRefusal } from "../../../support/raw-http.ts";
import { createAttacker, JSON_TYPE } from "./attacker.ts";

describe("partner API, attacked by what belongs to others", () => {
  const attacker = createAttacker();
  const { appointment, own, key, create } = attacker;

  const at = (method: "POST" | "DELETE", path: string, headers = attacker.world.headers) =>
    ask(method, `${attacker.command.url}/production/v1${path}`, headers);
  let endpointId: string;

  before(async () => {
    const hook = { url: "http://127.0.0.1:9/hook", events: ["appointment.created"] };
    const { applicationId } = attacker.other;
    await approveWebhookOrigin(attacker.command.log, { applicationId, origin: hook.url }, operatorContext());
    const made = await ask(
      "POST",
      `${attacker.command.url}/production/v1/webhook-endpoints`,
      attacker.other.headers,
      hook,
    );
    expect(made.status, made.text).to.equal(201);
    endpointId = made.body.endpoint.id;
  });

  it("403 installation_denied: another's clinic, whatever is asked of it", async () => {
    const headers = { ...attacker.world.headers, "X-SERVICE-Clinic-ID": attacker.other.clinicId };
    for (const [method, path] of [
      ["POST", "/appointments"],
      ["POST", "/webhook-endpoints"],
      ["DELETE", `/webhook-endpoints/${endpointId}`],
      ["POST", `/webhook-endpoints/${endpointId}/rotate-secret`],
      ["POST", `/webhook-endpoints/${endpointId}/test`],
      ["POST", `/webhook-endpoints/${endpointId}/deliveries/${randomUUID()}/replay`],
    ] as const) {
      const { status, body } = await at(method, path, headers);
      expect([status, body.error], path).to.deep.equal([403, "installation_denied"]);
    }
  });

  it("another's branch: unknown in the body, and none in the header that lets anything be written", async () => {
    const theirs = { branchId: attacker.other.branchId, animalId: attacker.other.animalId };
    const inBody = await create([...own(), key(), JSON_TYPE], JSON.stringify(appointment(theirs)));
    expectRefusal(inBody, 422, "validation_failed");
    const branch = `X-SERVICE-Branch-ID: ${attacker.other.branchId}`;
    expectRefusal(await create([...own(), branch, key(), JSON_TYPE]), 422, "validation_failed");
  });

  it("another's endpoint and deliveries are told of in the words for unknown ones", async () => {
    const unknown = randomUUID();
    for (const [method, rest] of [
      ["DELETE", ""],
      ["POST", "/rotate-secret"],
      ["POST", "/test"],
      ["POST", `/deliveries/${randomUUID()}/replay`],
    ] as const) {
      const foreign = await at(method, `/webhook-endpoints/${endpointId}${rest}`);
      const missing = await at(method, `/webhook-endpoints/${unknown}${rest}`);
      expect([foreign.status, foreign.body.error]).to.deep.equal([missing.status, missing.body.error]);
      expect(foreign.status).to.be.oneOf([404, 409]);
    }
    expect(await attacker.command.log.read(`webhookEndpoint-${endpointId}`)).to.have.length(1);
  });
});
