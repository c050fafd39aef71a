import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { approveWebhookOrigin, revokeApplication } from "../../../command/operations/application-operations.ts";
import { MAX_ENDPOINTS } from "../../../command/operations/endpoint-quota.ts";
import {
  type EndpointOperationId,
  type PartnerOperation,
  partnerOperations,
  toApplicationOperationId,
} from "../../../shared/partner-api/operations.ts";
import { createTestOperatorContext, type PartnerResponse } from "../../support/partner.ts";
import { type Partner, type PartnerApi, startPartnerApi } from "../../support/partner-api.ts";

const LIST_PATH = "/application/webhook-endpoints";
const newEndpoint = { url: "http://127.0.0.1:9/access", events: ["installation.approved", "installation.revoked"] };
const newClinicEndpoint = { url: "http://127.0.0.1:9/hooks", events: ["appointment.created"] };

/** Operations with the id of an endpoint in their path, by the id of the operation on a clinic's endpoints. */
const operationIds = (Object.keys(partnerOperations) as EndpointOperationId[]).filter(
  (id) => id.includes("Webhook") && !id.includes("Application") && partnerOperations[id].path.includes(":endpointId"),
);

describe("operations on endpoints that belong to the application", () => {
  let api: PartnerApi;
  let partner: Partner;
  let clinicHeaders: Record<string, string>;

  before(async () => {
    api = await startPartnerApi();
  });
  after(() => api.stop());
  beforeEach(async () => {
    partner = await api.createPartner();
    const { body } = await partner.request("GET", "/sandbox");
    clinicHeaders = { "X-SERVICE-Clinic-ID": body.sandbox.clinicId };
  });

  async function create(of = partner, path = LIST_PATH, body: object = newEndpoint): Promise<string> {
    const response = await of.request("POST", path, { headers: clinicHeaders, body });
    expect(response.status, response.text).to.equal(201);
    return response.body.endpoint.id;
  }
  const createAtClinic = () => create(partner, "/webhook-endpoints", newClinicEndpoint);
  /** Sends a valid request of an operation to an endpoint. */
  function send({ method, path }: PartnerOperation, endpointId: string, caller = partner, headers = {}) {
    const body = path.endsWith("/replays") ? { since: "2026-01-01T00:00:00Z" } : { rateLimitPerSecond: 5 };
    return caller.request(method, path.replace(":endpointId", endpointId).replace(/:\w+/, randomUUID()), {
      headers: { "Idempotency-Key": randomUUID(), ...headers },
      ...((method === "PATCH" || path.endsWith("/replays")) && method !== "GET" && { body }),
    });
  }
  const toText = ({ status, body }: PartnerResponse) => `${status} ${body.error}`;

  it("an endpoint has no clinic, and only the operations without a clinic list it", async () => {
    const endpointId = await create();
    const clinicEndpointId = await createAtClinic();
    const { body } = await partner.request("GET", LIST_PATH);
    expect(body.endpoints).to.have.length(1);
    expect(body.endpoints[0]).to.include({ id: endpointId, clinicId: null, status: "active" });
    expect(body.endpoints[0].events).to.deep.equal(newEndpoint.events);
    const atClinic = await partner.request("GET", "/webhook-endpoints", { headers: clinicHeaders });
    expect(atClinic.body.endpoints.map(({ id }: { id: string }) => id)).to.deep.equal([clinicEndpointId]);
  });

  it("an application without an installation can register an endpoint and change its settings", async () => {
    const uninstalled = await api.createPartner("production", ["webhooks:read", "webhooks:write"]);
    expect(toText(await uninstalled.request("POST", LIST_PATH, { body: newEndpoint }))).to.equal(
      "400 destination_not_approved",
    );
    const approval = { applicationId: uninstalled.applicationId, origin: newEndpoint.url };
    await approveWebhookOrigin(api.command.log, approval, createTestOperatorContext());
    const endpointId = await create(uninstalled);
    const changes = { events: [], operationalEvents: ["endpoint.disabled"], rateLimitPerSecond: 5 };
    const changed = await uninstalled.request("PATCH", `${LIST_PATH}/${endpointId}`, { body: changes });
    expect(changed.status, changed.text).to.equal(200);
    expect(changed.body.endpoint).to.deep.include({ ...changes, clinicId: null, branchIds: null, ordering: "none" });
    const read = await uninstalled.request("GET", `${LIST_PATH}/${endpointId}`);
    expect(read.body.endpoint).to.deep.include(changed.body.endpoint);
  });

  for (const id of operationIds) {
    it(`${toApplicationOperationId(id)} returns 404 for an endpoint of a clinic or of another application, as ${id} does for one of the application`, async () => {
      const applicationOperation = partnerOperations[toApplicationOperationId(id)];
      const stranger = await api.createPartner();
      const responses = [
        await send(applicationOperation, await createAtClinic()),
        await send(applicationOperation, await create(stranger)),
        await send(partnerOperations[id], await create(), partner, clinicHeaders),
      ];
      expect(responses.map(toText)).to.deep.equal(Array(3).fill("404 webhook_endpoint_not_found"));
      const withoutClinic = await send(partnerOperations[id], await createAtClinic());
      expect(toText(withoutClinic)).to.equal("403 clinic_header_invalid");
    });
  }

  it("an endpoint of the application has no settings for appointments, and no signature with a key that partners share", async () => {
    const endpointId = await create();
    const patch = (body: object) => partner.request("PATCH", `${LIST_PATH}/${endpointId}`, { body });
    const refused = [
      await partner.request("POST", LIST_PATH, { body: newClinicEndpoint }),
      await partner.request("POST", "/webhook-endpoints", { headers: clinicHeaders, body: newEndpoint }),
      await patch({ events: ["appointment.updated"] }),
      await patch({ branchIds: [randomUUID()] }),
      await patch({ ordering: "appointment" }),
      await patch({ asymmetricSignature: true }),
      await patch({ events: [] }),
    ];
    expect(refused.map(toText)).to.deep.equal(Array(7).fill("400 validation_failed"));
  });

  it("the quota of an application does not count its endpoints at clinics", async () => {
    await createAtClinic();
    const ids: string[] = [];
    for (let n = 0; n < MAX_ENDPOINTS; n += 1) ids.push(await create());
    const post = () => partner.request("POST", LIST_PATH, { body: newEndpoint });
    expect(toText(await post())).to.equal("409 webhook_endpoint_limit_reached");
    await createAtClinic();
    expect((await partner.request("DELETE", `${LIST_PATH}/${ids[0]}`)).status).to.equal(200);
    expect((await post()).status).to.equal(201);
  });

  it("tokens with a narrow scope, of the other environment or of a revoked application are refused", async () => {
    const narrow = await api.createPartner("sandbox", ["clinic:read", "webhooks:read"]);
    expect((await narrow.request("GET", LIST_PATH)).status).to.equal(200);
    expect(toText(await narrow.request("POST", LIST_PATH, { body: newEndpoint }))).to.equal("403 insufficient_scope");
    const url = `${api.queryUrl}/production/v1${LIST_PATH}`;
    expect((await fetch(url, { headers: partner.headers })).status).to.equal(401);
    const { applicationId } = partner;
    await revokeApplication(api.command.log, { applicationId, reason: null }, createTestOperatorContext());
    expect(toText(await partner.request("POST", LIST_PATH, { body: newEndpoint }))).to.equal("401 invalid_token");
  });
});
