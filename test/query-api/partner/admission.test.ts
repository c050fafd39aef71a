import { expect } from "chai";
import { deriveInstallationId } from "../../../shared/domain/events/ids.ts";
import { openClinic } from "../../support/clinics.ts";
import { installationApproved } from "../../support/partner-events.ts";
import { request, setUpQueryApi } from "../../support/query-api.ts";
import { expectRefusal, type RawResponse, sendOneRequest, toRequest } from "../../support/raw-http.ts";
import { createCaller, type PartnerCaller, setUpCaller } from "./caller.ts";

const marchQuery = "from=2026-03-01T00:00:00Z&to=2026-04-01T00:00:00Z";

describe("partner reads", () => {
  const api = setUpQueryApi();

  describe("authorization of partner reads", () => {
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

  describe("partner reads under attack", () => {
    let caller: PartnerCaller;
    let otherCaller: PartnerCaller;
    let token: string;
    let otherToken: string;

    before(async () => {
      [caller, otherCaller] = [await createCaller(api), await createCaller(api)];
      [token, otherToken] = [
        await api.createPartnerToken(caller.application),
        await api.createPartnerToken(otherCaller.application),
      ];
    });
    afterEach("the service is still live", async () => {
      expect((await request(`${api.url}/health/live`, {})).status).to.equal(200);
    });

    const buildClinicHeader = (id = caller.clinic.clinicId) => `X-SERVICE-Clinic-ID: ${id}`;
    const buildOwnHeaders = () => [`Authorization: Bearer ${token}`, buildClinicHeader()];
    const send = (requestLine: string, headers: string[], body = ""): Promise<RawResponse> =>
      sendOneRequest(api.url, toRequest(`${requestLine} HTTP/1.1`, headers, body));
    const contextRequestLine = "GET /production/v1/clinic/context";

    it("a partner read with a repeated header is refused", async () => {
      expect((await send(contextRequestLine, buildOwnHeaders())).status).to.equal(200);
      const otherClinicHeader = buildClinicHeader(otherCaller.clinic.clinicId);
      expectRefusal(
        await send(contextRequestLine, [...buildOwnHeaders(), otherClinicHeader]),
        403,
        "clinic_header_invalid",
      );
      expectRefusal(
        await send(contextRequestLine, [...buildOwnHeaders(), buildClinicHeader()]),
        403,
        "clinic_header_invalid",
      );
      const otherAuthorization = `Authorization: Bearer ${otherToken}`;
      expectRefusal(await send(contextRequestLine, [...buildOwnHeaders(), otherAuthorization]), 401, "invalid_token");
      const branchHeader = `X-SERVICE-Branch-ID: ${caller.clinic.branchId}`;
      expectRefusal(
        await send(contextRequestLine, [...buildOwnHeaders(), branchHeader, branchHeader]),
        403,
        "branch_denied",
      );
      const positionHeader = "X-SERVICE-Log-Position: 0";
      expectRefusal(
        await send(contextRequestLine, [...buildOwnHeaders(), positionHeader, positionHeader]),
        400,
        "invalid_log_position",
      );
    });

    it("a partner read is refused for a branch of another clinic", async () => {
      const branchHeader = `X-SERVICE-Branch-ID: ${otherCaller.clinic.branchId}`;
      expectRefusal(
        await send("GET /production/v1/appointments", [...buildOwnHeaders(), branchHeader]),
        403,
        "branch_denied",
      );
    });

    const text = "' OR 1=1 --";
    const queries = [
      "limit=0&limit=9",
      `limit=${"9".repeat(400)}`,
      "from=%00",
      `from=${encodeURIComponent(text)}`,
      "from[]=x",
      "from[a]=x",
      "__proto__=x",
      "constructor=x",
      "%",
      "%E0%A4%A",
      "&&&&",
      "=",
      `${"a=1&".repeat(100)}`,
      "to=9999-12-31T23:59:59.999Z",
    ];
    for (const query of queries) {
      it(`GET /appointments returns 200 for the unusual query ?${query.slice(0, 40)}`, async () => {
        const response = await send(`GET /production/v1/appointments?${query}`, buildOwnHeaders());
        expect([response.status, response.body?.ok], response.text).to.deep.equal([200, true]);
      });
    }

    const targets = [
      "/production/v1/clinic/context%00",
      "/production/v1/clinic/context;x",
      "/production/v1/webhook-endpoints//deliveries",
      "*",
      "http://[::1",
      "http://",
      "other:80",
    ];
    for (const target of targets) {
      it(`GET ${target} returns 404 or 400`, async () => {
        const response = await send(`GET ${target}`, buildOwnHeaders());
        if (response.status === 400) expectRefusal(response, 400, "malformed_request");
        else expectRefusal(response, 404, "not_found");
      });
    }

    it("a partner read returns 404 if an id in the path is not a UUID", async () => {
      for (const id of ["x", "..%2f..", "%00", "%E0%A4%A", "a".repeat(10_000), "%27%20OR%201=1"]) {
        const { status, body } = await send(`GET /production/v1/webhook-endpoints/${id}/deliveries`, buildOwnHeaders());
        expect([status, body?.ok], id).to.deep.equal([404, false]);
      }
    });

    for (const method of ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]) {
      it(`${method} on a partner read returns 405 with the header Allow`, async () => {
        const response = await send(`${method} /production/v1/clinic/context`, buildOwnHeaders());
        expectRefusal(response, 405, "method_not_allowed");
        expect(response.headers.allow).to.equal("GET, HEAD");
      });
    }

    it("HEAD on a partner read returns the status of GET without a body", async () => {
      const requestLine = "HEAD /production/v1/clinic/context";
      const response = await send(requestLine, buildOwnHeaders());
      expect([response.status, response.text]).to.deep.equal([200, ""]);
      const refusal = await send(requestLine, [buildClinicHeader()]);
      expect([refusal.status, refusal.text]).to.deep.equal([401, ""]);
    });

    it("a partner read ignores a request body", async () => {
      expect((await send(contextRequestLine, buildOwnHeaders(), "x".repeat(10_000))).status).to.equal(200);
    });
  });
});
