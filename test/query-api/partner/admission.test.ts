import { expect } from "chai";
import { openClinic } from "../../support/clinics.ts";
import { installationApproved } from "../../support/partner-events.ts";
import { setUpQueryApi } from "../../support/query-api.ts";
import { expectRefusal, sendOneRequest, toRequest } from "../../support/raw-http.ts";
import { createCaller, setUpCaller, withBranchHeader } from "./caller.ts";

// The test of strangers sends the usual refused requests to every operation.
describe("admission of partner reads", () => {
  const api = setUpQueryApi();
  const caller = setUpCaller(api);
  const send = async (target: string, ...headers: string[]) => {
    const token = await api.createPartnerToken(caller.application);
    const ownHeaders = [`Authorization: Bearer ${token}`, `X-SERVICE-Clinic-ID: ${caller.clinic.clinicId}`];
    return sendOneRequest(api.url, toRequest(`GET ${target} HTTP/1.1`, [...ownHeaders, ...headers], "ignored"));
  };

  it("a revoked credential, a scope that the installation lacks, a clinic of the other environment and a branch of another clinic are refused", async () => {
    const { applicationId, credentialId } = caller.application;
    const [otherClinic, sandboxClinic] = [
      await openClinic(api.given),
      await openClinic(api.given, { environment: "sandbox" }),
    ];
    const branch = withBranchHeader(otherClinic.branchId);
    expect(await caller.readRefusal("/clinic/context", branch)).to.equal("403 branch_denied");
    await api.given(
      installationApproved(caller.application, caller.clinic.clinicId, { scopes: ["clinic:read"] }),
      installationApproved(caller.application, sandboxClinic.clinicId),
    );
    expect(await caller.readRefusal("/appointments")).to.equal("403 insufficient_scope");
    const headers = { "X-SERVICE-Clinic-ID": sandboxClinic.clinicId };
    expect(await caller.readRefusal("/clinic/context", { headers })).to.equal("403 installation_denied");
    await caller.readBody("getClinicContext", "/clinic/context");
    await api.given({ type: "CredentialRevoked", data: { applicationId, credentialId } });
    expect(await caller.readRefusal("/clinic/context")).to.equal("401 invalid_token");
  });

  it("a partner read reports the remaining requests, and returns 429 above the agreed rate", async () => {
    await api.given(installationApproved(caller.application, caller.clinic.clinicId, { rateLimitPerMinute: 2 }));
    expect((await caller.get("/clinic/context")).headers.get("RateLimit-Remaining")).to.equal("1");
    await caller.get("/clinic/context");
    const { status, body, headers } = await caller.get("/clinic/context");
    expect([status, body.error]).to.deep.equal([429, "rate_limit_exceeded"]);
    expect(headers.get("RateLimit-Reset")).to.match(/^\d{4}-.*Z$/);
    expect(Number(headers.get("Retry-After"))).to.be.within(1, 60);
  });

  it("a partner read with a repeated header is refused", async () => {
    const { clinic, application } = await createCaller(api);
    const [branch, position] = [`X-SERVICE-Branch-ID: ${caller.clinic.branchId}`, "X-SERVICE-Log-Position: 0"];
    const cases: [status: number, error: string, ...headers: string[]][] = [
      [403, "clinic_header_invalid", `X-SERVICE-Clinic-ID: ${clinic.clinicId}`],
      [403, "clinic_header_invalid", `X-SERVICE-Clinic-ID: ${caller.clinic.clinicId}`],
      [401, "invalid_token", `Authorization: Bearer ${await api.createPartnerToken(application)}`],
      [403, "branch_denied", branch, branch],
      [400, "invalid_log_position", position, position],
    ];
    for (const [status, error, ...headers] of cases)
      expectRefusal(await send("/production/v1/clinic/context", ...headers), status, error);
  });
});
