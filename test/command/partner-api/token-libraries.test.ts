import { createPublicKey } from "node:crypto";
import { expect } from "chai";
import { createVerifier } from "fast-jwt";
import * as oauth from "oauth4webapi";
import {
  createApplication,
  sendRequest,
  startTestCommandService,
  type TestApplication,
  type TestCommand,
  TOKEN_ISSUER,
} from "../../support/partner.ts";

/** Checks tokens with libraries that partners and resource servers use. None of the libraries signed the tokens. */
describe("the token operation with public libraries", () => {
  let command: TestCommand;
  let application: TestApplication;
  let server: oauth.AuthorizationServer;
  let client: oauth.Client;

  before(async () => {
    command = await startTestCommandService();
    application = await createApplication(command.log, "production", ["clinic:read", "appointments:read"]);
    server = { issuer: TOKEN_ISSUER, jwks_uri: `${command.url}/.well-known/jwks.json` };
    client = { client_id: application.applicationId };
  });
  after(() => command.stop());

  const exchangeToken = (overrides: Record<string, unknown> = {}) =>
    fetch(`${command.url}/production/v1/oauth/token`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        client_id: application.applicationId,
        client_secret: application.clientSecret,
        grant_type: "client_credentials",
        environment: "production",
        ...overrides,
      }),
    });
  const createRequest = (token: string) =>
    new Request("http://partners.test/production/v1/appointments", {
      headers: { Authorization: `Bearer ${token}` },
    });
  const validate = (token: string, environment = "production") =>
    oauth.validateJwtAccessToken(server, createRequest(token), `${TOKEN_ISSUER}/${environment}/v1`, {
      [oauth.allowInsecureRequests]: true,
    });

  it("oauth4webapi accepts the token response, and validates the token with RFC 9068 and the published keys", async () => {
    const tokenResponse = await oauth.processClientCredentialsResponse(server, client, await exchangeToken());
    expect(tokenResponse).to.include({
      token_type: "bearer",
      expires_in: 900,
      scope: "clinic:read appointments:read",
    });
    const claims = await validate(tokenResponse.access_token);
    expect(claims).to.include({
      client_id: application.applicationId,
      sub: application.applicationId,
      iss: TOKEN_ISSUER,
    });
    const refusal = await validate(tokenResponse.access_token, "sandbox").catch((error: unknown) => error);
    expect(refusal).to.be.instanceOf(oauth.OperationProcessingError);
  });

  it("oauth4webapi recognises the response to a refused token exchange as an OAuth error", async () => {
    const cases: [Record<string, unknown>, string][] = [
      [{ client_secret: "cs_wrong" }, "invalid_client"],
      [{ scope: "webhooks:write" }, "invalid_scope"],
      [{ grant_type: "password" }, "unsupported_grant_type"],
      [{ client_id: undefined }, "invalid_request"],
    ];
    for (const [overrides, code] of cases) {
      const refusal = await oauth
        .processClientCredentialsResponse(server, client, await exchangeToken(overrides))
        .catch((error: unknown) => error);
      expect(refusal).to.be.instanceOf(oauth.ResponseBodyError);
      expect(refusal).to.include({ status: 401, error: code });
    }
  });

  it("fast-jwt accepts a token with the published key and rejects a tampered token", async () => {
    const { access_token: token } = (await (await exchangeToken()).json()) as { access_token: string };
    const { body } = await sendRequest("GET", server.jwks_uri ?? "");
    const key = createPublicKey({ key: body.keys[0], format: "jwk" }).export({ type: "spki", format: "pem" });
    const options = {
      algorithms: ["EdDSA" as const],
      allowedIss: TOKEN_ISSUER,
      requiredClaims: ["exp", "iat", "jti", "sub"],
    };
    const verify = createVerifier({ ...options, key, allowedAud: `${TOKEN_ISSUER}/production/v1` });
    expect(verify(token)).to.include({ client_id: application.applicationId, environment: "production" });
    const [header, payload = "", signature] = token.split(".");
    const widePayload = { ...JSON.parse(Buffer.from(payload, "base64url").toString()), scope: "webhooks:write" };
    const tamperedToken = `${header}.${Buffer.from(JSON.stringify(widePayload)).toString("base64url")}.${signature}`;
    expect(() => verify(tamperedToken)).to.throw("signature");
    const verifyInSandbox = createVerifier({ ...options, key, allowedAud: `${TOKEN_ISSUER}/sandbox/v1` });
    expect(() => verifyInSandbox(token)).to.throw("aud");
  });
});
