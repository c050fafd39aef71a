import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { approveWebhookOrigin } from "../../../command/operations/application-operations.ts";
import { MAX_ENDPOINTS } from "../../../command/operations/webhook-endpoint-operations.ts";
import { createTestOperatorContext, type PartnerResponse } from "../../support/partner.ts";
import { type Partner, startPartnerApi } from "../../support/partner-api.ts";
import { useResource } from "../../support/resources.ts";

const LIST_PATH = "/application/webhook-endpoints";
const newEndpoint = { url: "http://127.0.0.1:9/access", events: ["installation.approved", "installation.revoked"] };
const newClinicEndpoint = { url: "http://127.0.0.1:9/hooks", events: ["appointment.created"] };

describe("operations on endpoints that belong to the application", () => {
  const api = useResource(startPartnerApi);
  let partner: Partner;
  let clinicHeaders: Record<string, string>;

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
});
