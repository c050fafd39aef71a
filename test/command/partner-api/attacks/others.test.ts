import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { approveWebhookOrigin } from "../../../../command/operations/application-operations.ts";
import { createTestOperatorContext, sendRequest } from "../../../support/partner.ts";
import { expectRefusal } from "../../../support/raw-http.ts";
import { createAttacker, JSON_TYPE } from "./attacker.ts";

describe("attacks on the partner API with data of other partners", () => {
  const attacker = createAttacker();
  const { createBody, getOwnHeaders, createKeyHeader, postAppointment } = attacker;

  const send = (method: "POST" | "DELETE", path: string, headers = attacker.world.headers) =>
    sendRequest(method, `${attacker.command.url}/production/v1${path}`, headers);
  let endpointId: string;

  before(async () => {
    const endpointInput = { url: "http://127.0.0.1:9/hook", events: ["appointment.created"] };
    const { applicationId } = attacker.otherWorld;
    await approveWebhookOrigin(
      attacker.command.log,
      { applicationId, origin: endpointInput.url },
      createTestOperatorContext(),
    );
    const registrationResponse = await sendRequest(
      "POST",
      `${attacker.command.url}/production/v1/webhook-endpoints`,
      attacker.otherWorld.headers,
      endpointInput,
    );
    expect(registrationResponse.status, registrationResponse.text).to.equal(201);
    endpointId = registrationResponse.body.endpoint.id;
  });

  it("every write at a clinic of another partner gets 403 installation_denied", async () => {
    const headers = { ...attacker.world.headers, "X-SERVICE-Clinic-ID": attacker.otherWorld.clinicId };
    for (const [method, path] of [
      ["POST", "/appointments"],
      ["POST", "/webhook-endpoints"],
      ["DELETE", `/webhook-endpoints/${endpointId}`],
      ["POST", `/webhook-endpoints/${endpointId}/rotate-secret`],
      ["POST", `/webhook-endpoints/${endpointId}/test`],
      ["POST", `/webhook-endpoints/${endpointId}/deliveries/${randomUUID()}/replay`],
    ] as const) {
      const { status, body } = await send(method, path, headers);
      expect([status, body.error], path).to.deep.equal([403, "installation_denied"]);
    }
  });

  it("a request that names another clinic's branch in the body or the branch header gets 422", async () => {
    const otherIds = { branchId: attacker.otherWorld.branchId, animalId: attacker.otherWorld.animalId };
    const bodyResponse = await postAppointment(
      [...getOwnHeaders(), createKeyHeader(), JSON_TYPE],
      JSON.stringify(createBody(otherIds)),
    );
    expectRefusal(bodyResponse, 422, "validation_failed");
    const branchHeader = `X-SERVICE-Branch-ID: ${attacker.otherWorld.branchId}`;
    expectRefusal(
      await postAppointment([...getOwnHeaders(), branchHeader, createKeyHeader(), JSON_TYPE]),
      422,
      "validation_failed",
    );
  });

  it("requests for another partner's endpoint get the same errors as requests for an unknown endpoint", async () => {
    const unknownId = randomUUID();
    for (const [method, pathSuffix] of [
      ["DELETE", ""],
      ["POST", "/rotate-secret"],
      ["POST", "/test"],
      ["POST", `/deliveries/${randomUUID()}/replay`],
    ] as const) {
      const otherPartnerResponse = await send(method, `/webhook-endpoints/${endpointId}${pathSuffix}`);
      const unknownIdResponse = await send(method, `/webhook-endpoints/${unknownId}${pathSuffix}`);
      expect([otherPartnerResponse.status, otherPartnerResponse.body.error]).to.deep.equal([
        unknownIdResponse.status,
        unknownIdResponse.body.error,
      ]);
      expect(otherPartnerResponse.status).to.be.oneOf([404, 409]);
    }
    expect(await attacker.command.log.read(`webhookEndpoint-${endpointId}`)).to.have.length(1);
  });
});
