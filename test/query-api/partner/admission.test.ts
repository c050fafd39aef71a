import { expect } from "chai";
import { deriveInstallationId } from "../../../shared/domain/events/ids.ts";
import { openClinic } from "../../support/clinics.ts";
import { installationApproved } from "../../support/partner-events.ts";
import { request, setUpQueryApi } from "../../support/query-api.ts";
import { createCaller, setUpCaller } from "./caller.ts";

const marchQuery = "from=2026-03-01T00:00:00Z&to=2026-04-01T00:00:00Z";

describe("authorization of partner reads", () => {
  const api = setUpQueryApi();
  const caller = setUpCaller(api);

  it("a partner read requires a token for the environment in the path", async () => {
    const url = `${api.url}/production/v1/clinic/context`;
    expect((await request(url, {})).body.error).to.equal("missing_token");
    expect((await request(url, { Authorization: "Bearer x.y.z" })).status).to.equal(401);
    expect(await caller.readRefusal("/clinic/context", { environment: "sandbox" })).to.equal("401 invalid_token");
  });

  it("a partner read is refused as soon as the credential or the application is revoked", async () => {
    const { applicationId, credentialId } = caller.application;
    await caller.readBody("getClinicContext", "/clinic/context");
    await api.given({ type: "CredentialRevoked", data: { applicationId, credentialId } });
    expect(await caller.readRefusal("/clinic/context")).to.equal("401 invalid_token");
    const otherCaller = await createCaller(api, caller.clinic);
    await otherCaller.readBody("getClinicContext", "/clinic/context");
    await api.given({
      type: "ApplicationRevoked",
      data: { applicationId: otherCaller.application.applicationId, reason: null },
    });
    expect(await otherCaller.readRefusal("/clinic/context")).to.equal("401 invalid_token");
  });

  it("a partner read is refused if the token or the installation lacks the required scope", async () => {
    expect(await caller.readRefusal("/clinic/context", { scopes: ["appointments:read"] })).to.equal(
      "403 insufficient_scope",
    );
    await api.given(installationApproved(caller.application, caller.clinic.clinicId, { scopes: ["clinic:read"] }));
    expect(await caller.readRefusal(`/appointments?${marchQuery}`)).to.equal("403 insufficient_scope");
    expect(await caller.readRefusal("/webhook-endpoints")).to.equal("403 insufficient_scope");
  });

  it("a partner read is refused if the clinic header is missing, malformed or names a clinic without an installation", async () => {
    const withClinicHeader = (id: string) => ({ headers: { "X-SERVICE-Clinic-ID": id } });
    expect(await caller.readRefusal("/clinic/context", withClinicHeader(""))).to.equal("403 clinic_header_invalid");
    expect(await caller.readRefusal("/clinic/context", withClinicHeader("x"))).to.equal("403 clinic_header_invalid");
    const otherClinic = await openClinic(api.given);
    expect(await caller.readRefusal("/clinic/context", withClinicHeader(otherClinic.clinicId))).to.equal(
      "403 installation_denied",
    );
  });

  it("a partner read is refused if the installation is revoked", async () => {
    await caller.readBody("getClinicContext", "/clinic/context");
    const id = deriveInstallationId(caller.application.applicationId, caller.clinic.clinicId);
    await api.given({ type: "InstallationRevoked", data: { installationId: id, reason: null } });
    expect(await caller.readRefusal("/clinic/context")).to.equal("403 installation_denied");
  });

  it("a partner read is refused if the clinic belongs to the other environment", async () => {
    const sandboxClinic = await openClinic(api.given, { environment: "sandbox" });
    await api.given(installationApproved(caller.application, sandboxClinic.clinicId));
    const headers = { "X-SERVICE-Clinic-ID": sandboxClinic.clinicId };
    expect(await caller.readRefusal("/clinic/context", { headers })).to.equal("403 installation_denied");
  });

  it("a partner read reports the remaining requests, and returns 429 above the agreed rate", async () => {
    await api.given(installationApproved(caller.application, caller.clinic.clinicId, { rateLimitPerMinute: 2 }));
    const firstResponse = await caller.get("/clinic/context");
    expect(firstResponse.headers.get("RateLimit-Remaining")).to.equal("1");
    await caller.get("/clinic/context");
    const thirdResponse = await caller.get("/clinic/context");
    expect([thirdResponse.status, thirdResponse.body.error]).to.deep.equal([429, "rate_limit_exceeded"]);
    expect(thirdResponse.headers.get("RateLimit-Reset")).to.match(/^\d{4}-.*Z$/);
    expect(Number(thirdResponse.headers.get("Retry-After"))).to.be.within(1, 60);
  });
});
