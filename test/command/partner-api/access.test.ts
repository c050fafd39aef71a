import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { importJWK, type JWTPayload, SignJWT } from "jose";
import { revokeApplication, revokeCredential } from "../../../command/operations/application-operations.ts";
import {
  narrowInstallation,
  requestInstallation,
  revokeInstallation,
} from "../../../command/operations/installation-operations.ts";
import { eventually } from "../../support/eventually.ts";
import { createMigratedDatabase } from "../../support/migrated-database.ts";
import {
  createApplication,
  createClinic,
  createPartnerWorld,
  createTestOperatorContext,
  type PartnerWorld,
  sendRequest,
  sendTokenRequest,
  startTestCommandService,
  type TestCommand,
  TOKEN_ISSUER,
} from "../../support/partner.ts";
import type { TestDatabase } from "../../support/stack.ts";

/** Id of an endpoint that does not exist. A request that passes all access checks gets 404 for this id. */
const UNKNOWN_ENDPOINT_ID = randomUUID();

describe("partner access", () => {
  let database: TestDatabase;
  let command: TestCommand;
  let world: PartnerWorld;

  before(async () => {
    database = await createMigratedDatabase();
    command = await startTestCommandService({ DATABASE_URL: database.urls.command });
    world = await createPartnerWorld(command);
  });
  after(async () => {
    await command.stop();
    await database.drop();
  });

  const send = (headers: Record<string, string | undefined> = {}, environment = "production") => {
    const allHeaders = { ...world.headers, ...headers };
    const definedHeaders = Object.entries(allHeaders).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    );
    const url = `${command.url}/${environment}/v1/webhook-endpoints/${UNKNOWN_ENDPOINT_ID}`;
    return sendRequest("DELETE", url, Object.fromEntries(definedHeaders));
  };
  const sendToken = (token: string) => send({ Authorization: `Bearer ${token}` });

  /** Signs a valid token of the test's application, with the given claims and header fields replaced. */
  async function signToken(claims: JWTPayload = {}, header: Record<string, string> = {}): Promise<string> {
    const now = Math.floor(Date.now() / 1000);
    const { applicationId, credentialId } = world;
    return new SignJWT({
      client_id: applicationId,
      credential_id: credentialId,
      environment: "production",
      scope: "webhooks:write",
      sub: applicationId,
      iss: TOKEN_ISSUER,
      jti: randomUUID(),
      aud: `${TOKEN_ISSUER}/production/v1`,
      iat: now,
      exp: now + 900,
      ...claims,
    })
      .setProtectedHeader({ alg: "EdDSA", typ: "at+jwt", kid: "test", ...header })
      .sign(await importJWK(command.signingKey, "EdDSA"));
  }

  it("a partner request with a valid token is permitted, and the response contains the remaining rate limit", async () => {
    const { status, headers } = await send();
    expect(status).to.equal(404);
    expect(headers.get("ratelimit-remaining")).to.match(/^\d+$/);
    expect(headers.get("ratelimit-reset")).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect((await sendToken(await signToken())).status).to.equal(404);
  });

  const pastSeconds = Math.floor(Date.now() / 1000) - 1000;
  const badTokens: [string, () => Promise<string> | string][] = [
    ["that has expired", () => signToken({ iat: pastSeconds, exp: pastSeconds + 900 })],
    ["of another audience", () => signToken({ aud: `${TOKEN_ISSUER}/sandbox/v1` })],
    ["of another issuer", () => signToken({ iss: "http://elsewhere.test" })],
    ["of another environment", () => signToken({ environment: "sandbox" })],
    ["without an expiry", () => signToken({ exp: undefined as never })],
    ["of another type", () => signToken({}, { typ: "JWT" })],
    ["of an unknown key", () => signToken({}, { kid: "unknown" })],
    ["of an unknown application", () => signToken({ client_id: randomUUID() })],
    ["of an unknown credential", () => signToken({ credential_id: randomUUID() })],
    [
      "without an algorithm",
      async () => {
        const [, payload] = (await signToken()).split(".");
        const header = Buffer.from(JSON.stringify({ alg: "none", typ: "at+jwt" })).toString("base64url");
        return `${header}.${payload}.`;
      },
    ],
    [
      "that was tampered with",
      async () => {
        const [header, payload, signature] = (await signToken()).split(".") as [string, string, string];
        const claims = JSON.parse(Buffer.from(payload, "base64url").toString());
        const widePayload = Buffer.from(JSON.stringify({ ...claims, scope: "clinic:read" })).toString("base64url");
        return `${header}.${widePayload}.${signature}`;
      },
    ],
    ["that is not a JWT", () => "abc"],
  ];
  for (const [caseName, token] of badTokens) {
    it(`a partner request with a token ${caseName} gets 401 invalid_token`, async () => {
      const { status, body, headers } = await sendToken(await token());
      expect(status).to.equal(401);
      expect(body.error).to.equal("invalid_token");
      expect(headers.get("www-authenticate")).to.equal('Bearer error="invalid_token"');
    });
  }

  it("a partner request without Authorization or with another scheme gets 401 missing_token", async () => {
    for (const Authorization of [undefined, "Basic eDp5"]) {
      const { status, body } = await send({ Authorization });
      expect(status).to.equal(401);
      expect(body.error).to.equal("missing_token");
    }
  });

  it("a token of one environment gets 401 at the base path of the other environment", async () => {
    expect((await send({}, "sandbox")).status).to.equal(401);
  });

  it("a request with a missing or malformed clinic header gets 403 clinic_header_invalid", async () => {
    for (const id of [undefined, "clinic", ""]) {
      const { status, body } = await send({ "X-SERVICE-Clinic-ID": id });
      expect(status).to.equal(403);
      expect(body.error).to.equal("clinic_header_invalid");
    }
  });

  it("a request for a clinic that has not approved the installation gets 403 installation_denied", async () => {
    const { clinicId } = await createClinic(command.log);
    await requestInstallation(command.log, { ...world, clinicId }, createTestOperatorContext());
    expect((await send({ "X-SERVICE-Clinic-ID": clinicId })).body.error).to.equal("installation_denied");
  });

  it("a request with a branch header that is not a UUID gets 403 branch_denied", async () => {
    expect((await send({ "X-SERVICE-Branch-ID": "main" })).body.error).to.equal("branch_denied");
  });

  it("a request gets 403 insufficient_scope if the token or the installation lacks the required scope", async () => {
    expect((await sendToken(await signToken({ scope: "clinic:read" }))).body.error).to.equal("insufficient_scope");
    const otherWorld = await createPartnerWorld(command);
    await narrowInstallation(
      command.log,
      { ...otherWorld, branchIds: [otherWorld.branchId], scopes: ["clinic:read"] },
      createTestOperatorContext(),
    );
    expect((await send(otherWorld.headers)).body.error).to.equal("insufficient_scope");
  });

  it("after the revocation of an installation, credential or application, requests are refused", async () => {
    const getRefusalAfter = async (revoke: (world: PartnerWorld) => Promise<unknown>) => {
      const otherWorld = await createPartnerWorld(command);
      expect((await send(otherWorld.headers)).status).to.equal(404);
      await revoke(otherWorld);
      return eventually("a request is refused", async () => {
        const { status, body } = await send(otherWorld.headers);
        return status !== 404 && [status, body.error];
      });
    };
    const context = createTestOperatorContext();
    expect(
      await getRefusalAfter((revokedWorld) =>
        revokeInstallation(command.log, { ...revokedWorld, reason: null }, context),
      ),
    ).to.deep.equal([403, "installation_denied"]);
    expect(await getRefusalAfter((revokedWorld) => revokeCredential(command.log, revokedWorld, context))).to.deep.equal(
      [401, "invalid_token"],
    );
    expect(
      await getRefusalAfter((revokedWorld) =>
        revokeApplication(command.log, { ...revokedWorld, reason: null }, context),
      ),
    ).to.deep.equal([401, "invalid_token"]);
  });

  it("a request over the rate limit of the installation gets 429 rate_limit_exceeded", async () => {
    const limitedWorld = await createPartnerWorld(command, "production", { rateLimitPerMinute: 3 });
    const remainingCounts: (string | null)[] = [];
    for (let request = 0; request < 3; request += 1) {
      const { status, headers } = await send(limitedWorld.headers);
      expect(status).to.equal(404);
      remainingCounts.push(headers.get("ratelimit-remaining"));
    }
    expect(remainingCounts).to.deep.equal(["2", "1", "0"]);
    const { status, body, headers } = await send(limitedWorld.headers);
    expect(status).to.equal(429);
    expect(body.error).to.equal("rate_limit_exceeded");
    expect(headers.get("ratelimit-remaining")).to.equal("0");
    const waitSeconds = Number(headers.get("retry-after"));
    expect(waitSeconds).to.be.within(1, 60);
    expect(Date.parse(headers.get("ratelimit-reset") ?? "") - Date.now()).to.be.within(0, 60_000);
  });

  it("unknown paths get 404 and unknown methods get 405", async () => {
    expect((await sendRequest("POST", `${command.url}/production/v1/nothing`)).body.error).to.equal("not_found");
    const { status, headers } = await sendRequest("PUT", `${command.url}/production/v1/appointments`);
    expect([status, headers.get("allow")]).to.deep.equal([405, "GET, HEAD, POST"]);
  });

  it("a sandbox application gets a token at the sandbox base path", async () => {
    const application = await createApplication(command.log, "sandbox");
    expect((await sendTokenRequest(command.url, application)).status).to.equal(200);
  });
});
