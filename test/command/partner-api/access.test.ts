import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { closeClinic, suspendClinic } from "../../../command/operations/clinic-operations.ts";
import { narrowInstallation, requestInstallation } from "../../../command/operations/installation-operations.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createClinic,
  createPartnerWorld,
  createTestOperatorContext,
  type PartnerResponse,
  type PartnerWorld,
  sendRequest,
  startTestCommandService,
} from "../../support/partner.ts";
import { useResource } from "../../support/resources.ts";

const ENDPOINT = { url: "http://127.0.0.1:9/hook", events: ["appointment.created"] };

describe("partner access", () => {
  const command = useResource(startTestCommandService);
  let world: PartnerWorld;

  before(async () => {
    world = await createPartnerWorld(command);
  });

  type Method = "POST" | "PATCH" | "DELETE";
  const send = (caller: PartnerWorld, method: Method, path: string, body?: unknown, headers = {}) => {
    const allHeaders = { ...caller.headers, "Idempotency-Key": randomUUID(), ...headers };
    return sendRequest(method, `${command.url}/${caller.environment}/v1${path}`, allHeaders, body);
  };
  /** Sends a request that gets 404 if it passes all access checks. */
  const sendPermitted = (headers: Record<string, string>, caller = world) =>
    send(caller, "DELETE", `/webhook-endpoints/${randomUUID()}`, undefined, headers);
  const expectRefusal = ({ status, body }: PartnerResponse, error: string, message?: string) =>
    expect([status, body.error], message).to.deep.equal([403, error]);
  const createAppointmentBody = ({ branchId, animalId }: PartnerWorld) => ({
    branchId,
    animalId,
    scheduledAt: "2099-05-04T10:00:00Z",
  });

  it("a request for a clinic that has not approved the requested installation gets 403 installation_denied", async () => {
    const { clinicId } = await createClinic(command.log);
    await requestInstallation(command.log, { ...world, clinicId }, createTestOperatorContext());
    expectRefusal(await sendPermitted({ "X-SERVICE-Clinic-ID": clinicId }), "installation_denied");
  });

  it("a request gets 403 insufficient_scope if the installation lacks the required scope", async () => {
    const otherWorld = await createPartnerWorld(command);
    await narrowInstallation(
      command.log,
      { ...otherWorld, branchIds: [otherWorld.branchId], scopes: ["clinic:read"] },
      createTestOperatorContext(),
    );
    expectRefusal(await sendPermitted({}, otherWorld), "insufficient_scope");
  });

  for (const [statusName, changeStatus] of [
    ["suspended", suspendClinic],
    ["closed", closeClinic],
  ] as const) {
    it(`at a ${statusName} clinic, a partner cannot add data, but can protect and revoke endpoints`, async () => {
      const inactiveWorld = await createPartnerWorld(command, "sandbox");
      const { clinicId } = inactiveWorld;
      const appointment = createAppointmentBody(inactiveWorld);
      const registrationResponse = await send(inactiveWorld, "POST", "/webhook-endpoints", ENDPOINT);
      const endpointPath = `/webhook-endpoints/${registrationResponse.body.endpoint.id}`;
      await changeStatus(command.log, { clinicId, reason: "unpaid" }, createTestOperatorContext());
      await eventually("the service knows the clinic's new status", async () => {
        return (await send(inactiveWorld, "POST", "/appointments", appointment)).status !== 201;
      });
      for (const [method, path, body] of [
        ["POST", "/appointments", appointment],
        ["POST", "/appointments", "{"],
        ["POST", "/appointments", {}],
        ["POST", "/webhook-endpoints", ENDPOINT],
        ["POST", "/webhook-endpoints", "{"],
        ["PATCH", endpointPath, {}],
        ["PATCH", endpointPath, "{"],
        ["POST", `${endpointPath}/enable`, undefined],
        ["POST", `${endpointPath}/replays`, {}],
        ["POST", `${endpointPath}/deliveries/${randomUUID()}/replay`, undefined],
      ] as const) {
        const response = await send(inactiveWorld, method, path, body);
        expectRefusal(response, "clinic_not_operational", `${method} ${path} ${body}`);
      }
      const rotationResponse = await send(inactiveWorld, "POST", `${endpointPath}/rotate-secret`);
      expect(rotationResponse.status).to.equal(200);
      expect(rotationResponse.body.secret).to.not.equal(registrationResponse.body.secret);
      expect((await send(inactiveWorld, "POST", `${endpointPath}/test`)).status).to.equal(202);
      expect((await send(inactiveWorld, "POST", `${endpointPath}/disable`)).status).to.equal(200);
      for (let round = 0; round < 2; round += 1) {
        const { status, body } = await send(inactiveWorld, "DELETE", endpointPath);
        expect([status, body.endpoint.status]).to.deep.equal([200, "revoked"]);
      }
    });
  }
});
