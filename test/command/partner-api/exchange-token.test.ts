import { expect } from "chai";
import { createRemoteJWKSet, decodeProtectedHeader, jwtVerify } from "jose";
import { issueCredential } from "../../../command/operations/application-operations.ts";
import { createMigratedDatabase } from "../../support/migrated-database.ts";
import {
  createApplication,
  createTestOperatorContext,
  sendRequest,
  sendTokenRequest,
  startTestCommandService,
  type TestApplication,
  TOKEN_ISSUER,
} from "../../support/partner.ts";
import { useResource } from "../../support/resources.ts";

describe("exchangeToken", () => {
  const database = useResource(createMigratedDatabase);
  const command = useResource(() => startTestCommandService({ DATABASE_URL: database.urls.command }));
  let application: TestApplication;

  beforeEach(async () => {
    application = await createApplication(command.log, "production", ["appointments:read", "clinic:read"]);
  });

  it("exchangeToken returns a token with the claims of RFC 9068 and without a clinic", async () => {
    const { status, body, headers } = await sendTokenRequest(command.url, application);
    expect(status).to.equal(200);
    expect(body).to.have.all.keys("access_token", "token_type", "expires_in", "scope");
    expect(body).to.include({
      token_type: "Bearer",
      expires_in: 900,
      scope: "appointments:read clinic:read",
    });
    expect(headers.get("cache-control")).to.equal("no-store");
    expect(decodeProtectedHeader(body.access_token)).to.include({ alg: "EdDSA", typ: "at+jwt" });
    const keys = createRemoteJWKSet(new URL(`${command.url}/.well-known/jwks.json`));
    const { payload } = await jwtVerify(body.access_token, keys);
    const { jti, iat = 0, exp = 0, ...claims } = payload;
    expect(jti).to.match(/^[0-9a-f-]{36}$/);
    expect(exp - iat).to.equal(900);
    expect(claims).to.deep.equal({
      iss: TOKEN_ISSUER,
      aud: `${TOKEN_ISSUER}/production/v1`,
      sub: application.applicationId,
      client_id: application.applicationId,
      credential_id: application.credentialId,
      environment: "production",
      scope: "appointments:read clinic:read",
    });
  });

  it("GET /.well-known/jwks.json returns the public keys, which may be cached", async () => {
    const { body, headers } = await sendRequest("GET", `${command.url}/.well-known/jwks.json`);
    expect(body.keys).to.have.length(1);
    expect(body.keys[0]).to.have.all.keys("kty", "crv", "x", "kid", "alg", "use");
    expect(headers.get("cache-control")).to.match(/^public, max-age=\d+$/);
  });

  it("exchangeToken grants only those requested scopes that the application has", async () => {
    const { body } = await sendTokenRequest(command.url, application, {
      scope: "webhooks:write clinic:read clinic:read",
    });
    expect(body.scope).to.equal("clinic:read");
  });

  it("exchangeToken treats an empty scope like an omitted scope", async () => {
    expect((await sendTokenRequest(command.url, application, { scope: "" })).body.scope).to.equal(
      "appointments:read clinic:read",
    );
  });

  it("exchangeToken accepts the client id in upper case, and accepts each of two active secrets", async () => {
    const secondCredential = await issueCredential(command.log, application, createTestOperatorContext());
    const upperCaseIdOverride = { client_id: application.applicationId.toUpperCase() };
    expect((await sendTokenRequest(command.url, application, upperCaseIdOverride)).status).to.equal(200);
    expect((await sendTokenRequest(command.url, { ...application, ...secondCredential })).status).to.equal(200);
  });

  const wrongRequests: [string, Record<string, unknown>, string][] = [
    ["a wrong secret", { client_secret: "cs_wrong" }, "invalid_client"],
    ["an empty secret", { client_secret: "" }, "invalid_client"],
    ["an unknown id", { client_id: "00000000-0000-4000-8000-000000000000" }, "invalid_client"],
    ["an id that is not a UUID", { client_id: "calendar" }, "invalid_client"],
    ["the other environment", { environment: "sandbox" }, "invalid_client"],
    ["an unknown environment", { environment: "staging" }, "invalid_request"],
    ["another grant type", { grant_type: "authorization_code" }, "unsupported_grant_type"],
    ["an unknown scope", { scope: "clinic:read everything" }, "invalid_scope"],
    ["scopes that are all not granted", { scope: "webhooks:write" }, "invalid_scope"],
    ["a scope that is not a string", { scope: ["clinic:read"] }, "invalid_request"],
    ["a secret that is not a string", { client_secret: 7 }, "invalid_request"],
    ["a missing id", { client_id: undefined }, "invalid_request"],
    ["a missing secret", { client_secret: undefined }, "invalid_request"],
    ["a missing grant type", { grant_type: undefined }, "invalid_request"],
    ["a missing environment", { environment: undefined }, "invalid_request"],
  ];
  for (const [caseName, overrides, code] of wrongRequests) {
    it(`exchangeToken returns 401 ${code} for ${caseName}`, async () => {
      const { status, body, headers } = await sendTokenRequest(command.url, application, overrides);
      expect(status).to.equal(401);
      expect(body).to.deep.equal({
        ok: false,
        error: code,
        docUrl: `/docs#error-${code}`,
        correlationId: headers.get("x-correlation-id"),
      });
      expect(headers.get("cache-control")).to.equal("no-store");
    });
  }

  it("exchangeToken returns 401 invalid_client for a production application at the sandbox base path", async () => {
    const response = await sendTokenRequest(command.url, { ...application, environment: "sandbox" });
    expect(response).to.include({ status: 401 });
    expect(response.body.error).to.equal("invalid_client");
  });

  it("the 31st exchange of a client within a minute gets 429, and another client gets 200", async () => {
    const exchange = () => sendTokenRequest(command.url, application);
    // An address may send 20 requests at once.
    const responses = await Promise.all(Array.from({ length: 20 }, exchange));
    responses.push(...(await Promise.all(Array.from({ length: 11 }, exchange))));
    const refusedResponses = responses.filter(({ status }) => status === 429);
    expect(refusedResponses).to.have.length(1);
    expect(refusedResponses[0]!.body.error).to.equal("rate_limit_exceeded");
    expect(refusedResponses[0]!.headers.get("ratelimit-remaining")).to.equal("0");
    expect(Number(refusedResponses[0]!.headers.get("retry-after"))).to.be.within(1, 60);
    expect((await sendTokenRequest(command.url, await createApplication(command.log))).status).to.equal(200);
  });

  it("behind a proxy, a client cannot avoid the 429 of exchangeToken with false addresses in X-Forwarded-For", async () => {
    const proxiedCommand = await startTestCommandService({
      TRUST_PROXY: "true",
      DATABASE_URL: database.urls.command,
    });
    const { applicationId: client_id, clientSecret: client_secret, environment } = application;
    const body = { client_id, client_secret, environment, grant_type: "client_credentials" };
    const statuses: number[] = [];
    // Proxies may leave an empty element at the end of the list.
    for (const end of [...Array<string>(30).fill(""), "", ",", " , "]) {
      const headers = { "X-Forwarded-For": `192.0.2.${statuses.length}, 198.51.100.7${end}` };
      const url = `${proxiedCommand.url}/production/v1/oauth/token`;
      statuses.push((await sendRequest("POST", url, headers, body)).status);
    }
    await proxiedCommand.stop();
    expect(statuses).to.deep.equal([...Array<number>(30).fill(200), 429, 429, 429]);
  });
});
