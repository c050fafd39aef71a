import { expect } from "chai";
import * as client from "openid-client";
import { ClientCredentials, type ModuleOptions } from "simple-oauth2";
import { scopes } from "../../../shared/domain/events/partner.ts";
import { findFreePort } from "../../support/free-ports.ts";
import {
  createApplication,
  sendRequest,
  startTestCommandService,
  type TestApplication,
  type TestCommand,
} from "../../support/partner.ts";

describe("the token operation with OAuth clients", () => {
  let command: TestCommand;
  let application: TestApplication;
  let issuer: URL;

  before(async () => {
    // Clients compare the issuer with the address of the metadata, so the port must be known before the start.
    const port = await findFreePort();
    const origin = `http://127.0.0.1:${port}`;
    issuer = new URL(`${origin}/sandbox/v1`);
    command = await startTestCommandService({ PORT: String(port), TOKEN_ISSUER: origin });
    application = await createApplication(command.log, "sandbox", ["sandbox:write", "clinic:read"]);
  });

  const catchError = (promise: Promise<unknown>) =>
    promise.then(
      () => expect.fail("The request succeeded."),
      (error) => error,
    );

  it("each environment has metadata as defined in RFC 8414, which may be cached", async () => {
    const { origin } = issuer;
    for (const environment of ["sandbox", "production"]) {
      const url = `${origin}/.well-known/oauth-authorization-server/${environment}/v1`;
      const { status, body, headers } = await sendRequest("GET", url);
      expect([status, headers.get("cache-control")]).to.deep.equal([200, "public, max-age=300"]);
      expect(body).to.deep.equal({
        issuer: `${origin}/${environment}/v1`,
        token_endpoint: `${origin}/${environment}/v1/oauth/token`,
        token_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post"],
        grant_types_supported: ["client_credentials"],
        response_types_supported: [],
        scopes_supported: scopes,
        jwks_uri: `${origin}/.well-known/jwks.json`,
        service_documentation: `${origin}/docs`,
      });
      expect((await sendRequest("GET", body.jwks_uri)).body.keys).to.have.length(1);
    }
    expect((await sendRequest("GET", `${origin}/.well-known/oauth-authorization-server`)).status).to.equal(404);
  });

  describe("openid-client", () => {
    const discover = (authentication: client.ClientAuth) =>
      client.discovery(issuer, application.applicationId, undefined, authentication, {
        algorithm: "oauth2",
        execute: [client.allowInsecureRequests],
      });

    for (const [method, createAuthentication] of [
      ["client_secret_basic", client.ClientSecretBasic],
      ["client_secret_post", client.ClientSecretPost],
    ] as const) {
      it(`openid-client discovers the server, gets a token with ${method} and calls the API`, async () => {
        const config = await discover(createAuthentication(application.clientSecret));
        const token = await client.clientCredentialsGrant(config, { scope: "sandbox:write" });
        expect(token).to.include({ token_type: "bearer", expires_in: 900, scope: "sandbox:write" });
        expect(token.expiresIn()).to.be.within(1, 900);
        const url = new URL(`${issuer.href}/sandbox/reset`);
        const response = await client.fetchProtectedResource(config, token.access_token, url, "POST");
        expect([response.status, ((await response.json()) as { ok: boolean }).ok]).to.deep.equal([200, true]);
      });
    }

    it("openid-client reports a wrong secret and an invalid scope", async () => {
      const config = await discover(client.ClientSecretPost("cs_wrong"));
      const clientError = await catchError(client.clientCredentialsGrant(config));
      expect(clientError).to.be.instanceOf(client.ResponseBodyError);
      expect(clientError).to.include({ status: 401, error: "invalid_client" });
      const basicConfig = await discover(client.ClientSecretBasic("cs_wrong"));
      const challengeError = await catchError(client.clientCredentialsGrant(basicConfig));
      expect(challengeError).to.be.instanceOf(client.WWWAuthenticateChallengeError);
      expect(challengeError.cause[0]).to.deep.include({
        scheme: "basic",
        parameters: { realm: "token", charset: "UTF-8" },
      });
      const validConfig = await discover(client.ClientSecretBasic(application.clientSecret));
      const scopeError = await catchError(client.clientCredentialsGrant(validConfig, { scope: "webhooks:read" }));
      expect(scopeError).to.be.instanceOf(client.ResponseBodyError);
      expect(scopeError).to.include({ status: 400, error: "invalid_scope" });
    });
  });

  describe("simple-oauth2", () => {
    const createClient = (options: ModuleOptions["options"], secret = application.clientSecret) =>
      new ClientCredentials({
        client: { id: application.applicationId, secret },
        auth: { tokenHost: issuer.origin, tokenPath: "/sandbox/v1/oauth/token" },
        ...(options && { options }),
      });

    it("simple-oauth2 gets a token with its default settings and calls the API", async () => {
      const accessToken = await createClient(undefined).getToken({ scope: ["sandbox:write", "clinic:read"] });
      expect(accessToken.expired()).to.equal(false);
      expect(accessToken.token).to.include({ token_type: "Bearer", scope: "sandbox:write clinic:read" });
      const headers = { Authorization: `Bearer ${accessToken.token.access_token}` };
      expect((await sendRequest("POST", `${issuer.href}/sandbox/reset`, headers)).status).to.equal(200);
    });

    it("simple-oauth2 gets a token without encoding of credentials, with credentials in the form, and with JSON", async () => {
      const cases: [ModuleOptions["options"], Record<string, string>][] = [
        [{ credentialsEncodingMode: "loose" }, {}],
        [{ authorizationMethod: "body" }, {}],
        [{ authorizationMethod: "body", bodyFormat: "json" }, { environment: "sandbox" }],
      ];
      for (const [options, parameters] of cases) {
        const { token } = await createClient(options).getToken(parameters);
        expect(token.scope, JSON.stringify(options)).to.equal("sandbox:write clinic:read");
      }
    });

    it("simple-oauth2 reports a wrong secret and an invalid scope", async () => {
      const refusals = [
        await catchError(createClient({}, "cs_wrong").getToken({})),
        await catchError(createClient({ authorizationMethod: "body" }, "cs_wrong").getToken({})),
        await catchError(createClient({}).getToken({ scope: "webhooks:read" })),
      ];
      expect(refusals.map(({ output, data }) => [output.statusCode, data.payload.error])).to.deep.equal([
        [401, "invalid_client"],
        [401, "invalid_client"],
        [400, "invalid_scope"],
      ]);
    });
  });
});
