import { expect } from "chai";
import { installationId } from "../../../shared/domain/events/ids.ts";
import { type ClinicIds, openClinic } from "../../support/clinics.ts";
import { installationApproved, type TestApplication } from "../../support/partner-events.ts";
import { request, startTestQueryApi, type TestQueryApi } from "../../support/query-api.ts";
import { createCaller, type PartnerCaller, type RequestOptions } from "./caller.ts";

const march = "from=2026-03-01T00:00:00Z&to=2026-04-01T00:00:00Z";

describe("authorization of partner reads", () => {
  let api: TestQueryApi;
  let caller: PartnerCaller;
  let clinic: ClinicIds;
  let application: TestApplication;

  before(async () => {
    api = await startTestQueryApi();
  });

  after(() => api.stop());

  beforeEach(async () => {
    caller = await createCaller(api);
    clinic = caller.clinic;
    application = caller.application;
  });

  const get = (path: string, asked?: RequestOptions) => caller.get(path, asked);
  const body = (id: string, path: string, asked?: RequestOptions) => caller.body(id, path, asked);
  const refusal = (path: string, asked?: RequestOptions) => caller.refusal(path, asked);

  it("a partner read requires a token of the same environment", async () => {
    const url = `${api.url}/production/v1/clinic/context`;
    expect((await request(url, {})).body.error).to.equal("missing_token");
    expect((await request(url, { Authorization: "Bearer x.y.z" })).status).to.equal(401);
    expect(await refusal("/clinic/context", { environment: "sandbox" })).to.equal("401 invalid_token");
  });

  it("a partner read is refused as soon as the credential or the application is revoked", async () => {
    const { applicationId, credentialId } = application;
    await body("getClinicContext", "/clinic/context");
    await api.given({ type: "CredentialRevoked", data: { applicationId, credentialId } });
    expect(await refusal("/clinic/context")).to.equal("401 invalid_token");
    const another = await createCaller(api, clinic);
    await another.body("getClinicContext", "/clinic/context");
    await api.given({
      type: "ApplicationRevoked",
      data: { applicationId: another.application.applicationId, reason: null },
    });
    expect(await another.refusal("/clinic/context")).to.equal("401 invalid_token");
  });

  it("a partner read is refused if the token or the installation lacks the scope", async () => {
    expect(await refusal("/clinic/context", { scopes: ["appointments:read"] })).to.equal(
      "403 insufficient_scope",
    );
    await api.given(installationApproved(application, clinic.clinicId, { scopes: ["clinic:read"] }));
    expect(await refusal(`/appointments?${march}`)).to.equal("403 insufficient_scope");
    expect(await refusal("/webhook-endpoints")).to.equal("403 insufficient_scope");
  });

  it("a partner read is refused if the clinic header is missing, malformed or names a clinic without an installation", async () => {
    const clinicHeader = (id: string) => ({ headers: { "X-SERVICE-Clinic-ID": id } });
    expect(await refusal("/clinic/context", clinicHeader(""))).to.equal("403 clinic_header_invalid");
    expect(await refusal("/clinic/context", clinicHeader("x"))).to.equal("403 clinic_header_invalid");
    const stranger = await openClinic(api.given);
    expect(await refusal("/clinic/context", clinicHeader(stranger.clinicId))).to.equal(
      "403 installation_denied",
    );
  });

  it("a partner read is refused if the installation is revoked", async () => {
    await body("getClinicContext", "/clinic/context");
    const id = installationId(application.applicationId, clinic.clinicId);
    await api.given({ type: "InstallationRevoked", data: { installationId: id, reason: null } });
    expect(await refusal("/clinic/context")).to.equal("403 installation_denied");
  });

  it("a partner read is refused if the clinic belongs to the other environment", async () => {
    const sandbox = await openClinic(api.given, { environment: "sandbox" });
    await api.given(installationApproved(application, sandbox.clinicId));
    const headers = { "X-SERVICE-Clinic-ID": sandbox.clinicId };
    expect(await refusal("/clinic/context", { headers })).to.equal("403 installation_denied");
  });

  it("a partner read reports the remaining requests, and returns 429 above the agreed rate", async () => {
    await api.given(installationApproved(application, clinic.clinicId, { rateLimitPerMinute: 2 }));
    const first = await get("/clinic/context");
    expect(first.headers.get("RateLimit-Remaining")).to.equal("1");
    await get("/clinic/context");
    const third = await get("/clinic/context");
    expect([third.status, third.body.error]).to.deep.equal([429, "rate_limit_exceeded"]);
    expect(third.headers.get("RateLimit-Reset")).to.match(/^\d{4}-.*Z$/);
    expect(Number(third.headers.get("Retry-After"))).to.be.within(1, 60);
  });

  it("an unsupported method on the path of a partner read returns 405", async () => {
    const response = await fetch(`${api.url}/production/v1/clinic/context`, { method: "DELETE" });
    expect([response.status, response.headers.get("Allow")]).to.deep.equal([405, "GET, HEAD"]);
  });
});
