import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { deriveInstallationId } from "../../shared/domain/events/ids.ts";
import { animalRegistered, membershipGranted } from "../support/clinics.ts";
import { endpointRegistered } from "../support/partner-events.ts";
import { setUpQueryApi } from "../support/query-api.ts";
import { setUpCaller } from "./partner/caller.ts";

describe("access that depends on a quarantined stream", () => {
  const api = setUpQueryApi();
  const caller = setUpCaller(api);

  async function readPortal(userId: string) {
    const { status, body } = await api.get("/api/v1/clinic/context", userId);
    return status === 200 ? "200" : `${status} ${body.error}`;
  }

  it("while the stream of a membership or a clinic is quarantined, its users are denied, and no others", async () => {
    const [userId, otherUserId, membershipId] = [randomUUID(), randomUUID(), randomUUID()];
    const { clinicId } = caller.clinic;
    await api.given(membershipGranted(clinicId, userId, { membershipId }), membershipGranted(clinicId, otherUserId));
    const readBoth = async () => [await readPortal(userId), await readPortal(otherUserId)];
    expect(await readBoth()).to.deep.equal(["200", "200"]);
    await api.database.quarantine(`membership-${membershipId}`);
    expect(await readBoth()).to.deep.equal(["403 no_active_membership", "200"]);
    await api.database.quarantine(`clinic-${clinicId}`);
    expect(await readBoth()).to.deep.equal(["403 no_active_membership", "403 no_active_membership"]);
    expect((await api.get("/api/v1/clinics", otherUserId)).status).to.equal(403);
    expect(await caller.readRefusal("/clinic/context")).to.equal("403 installation_denied");
  });

  it("while the stream of an installation or an application is quarantined, the application is denied", async () => {
    const { application, clinic } = caller;
    expect((await caller.get("/clinic/context")).status).to.equal(200);
    const installationId = deriveInstallationId(application.applicationId, clinic.clinicId);
    await api.database.quarantine(`installation-${installationId}`);
    expect(await caller.readRefusal("/clinic/context")).to.equal("403 installation_denied");
    expect((await caller.get("/installations")).body.installations).to.deep.equal([]);
    await api.database.quarantine(`partnerApplication-${application.applicationId}`);
    expect(await caller.readRefusal("/installations")).to.match(/^401 /);
  });

  it("while the stream of an owner's consents is quarantined, the animal is not linked", async () => {
    const { applicationId } = caller.application;
    const { clinicId } = caller.clinic;
    const [customerId, animalId, linkId] = [randomUUID(), randomUUID(), randomUUID()];
    const link = { animalId, clinicId, applicationId, linkId, covers: "appointments_read" as const, customerId };
    await api.given(animalRegistered(clinicId, customerId, animalId), {
      type: "AnimalLinked",
      data: { ...link, sandboxGeneration: 0 },
    });
    const listLinkIds = async () => (await caller.get("/animal-links")).body.links.map(({ id }: { id: string }) => id);
    expect(await listLinkIds()).to.deep.equal([linkId]);
    await api.database.quarantine(`animalConsent-${animalId}`);
    expect(await listLinkIds()).to.deep.equal([]);
  });

  it("while the stream of an endpoint is quarantined, the endpoint is missing", async () => {
    const [endpointId, otherEndpointId] = [randomUUID(), randomUUID()];
    for (const id of [endpointId, otherEndpointId])
      await api.given(endpointRegistered(caller.application, caller.clinic.clinicId, id));
    await api.database.quarantine(`webhookEndpoint-${endpointId}`);
    const { endpoints } = (await caller.get("/webhook-endpoints")).body;
    expect(endpoints.map(({ id }: { id: string }) => id)).to.deep.equal([otherEndpointId]);
  });
});
