import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { importJWK, type JWTPayload, SignJWT } from "jose";
import { revokeApplication, revokeCredential } from "../../../command/operations/application-operations.ts";
import {
  narrowInstallation,
  requestInstallation,
  revokeInstallation,
} from "../../../command/operations/installation-operations.ts";
import { createMigratedDatabase } from "../../support/migrated-database.ts";
import {
  ask,
  createApplication,
  createClinic,
  createPartnerWorld,
  exchange,
  operatorContext,
  type PartnerWorld,
  startTestCommand,
  type TestCommand,
  TOKEN_ISSUER,
} from "../../support/partner.ts";
import type { TestDatabase } from "../../support/stack.ts";

/** An id of an endpoint that does not exist: whoever is let through gets 404 for it. */
const NO_ENDPOINT = randomUUID();

describe("partner access", () => {
  let database: TestDatabase;
  let command: TestCommand;
  let world: PartnerWorld;

  before(async () => {
    database = await createMigratedDatabase();
    command = await startTestCommand({ DATABASE_URL: database.urls.command });
    world = await createPartnerWorld(command);
  });
  after(async () => {
    await command.stop();
    await database.drop();
  });

  const asWorld = (headers: Record<string, string | undefined> = {}, environment = "production") => {
    const given = { ...world.headers, ...headers };
    const present = Object.entries(given).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    );
    const url = `${command.url}/${environment}/v1/webhook-endpoints/${NO_ENDPOINT}`;
    return ask("DELETE", url, Object.fromEntries(present));
  };
  const withToken = (token: string) => asWorld({ Authorization: `Bearer ${token}` });

  /** A good token of the world's, but for what is replaced. */
  async function forged(claims: JWTPayload = {}, header: Record<string, string> = {}): Promise<string> {
    const now = Math.floor(Date.now() / 1000);
    const { applicationId, credentialId } = world;
    return new SignJWT({
      ...{ client_id: applicationId, credential_id: credentialId, environment: "production" },
      ...{ scope: "webhooks:write", sub: applicationId, iss: TOKEN_ISSUER, jti: randomUUID() },
      ...{ aud: `${TOKEN_ISSUER}/production/v1`, iat: now, exp: now + 900 },
      ...claims,
    })
      .setProtectedHeader({ alg: "EdDSA", typ: "at+jwt", kid: "test", ...header })
      .sign(await importJWK(command.signingKey, "EdDSA"));
  }

  it("accepts a valid token and returns the remaining rate limit", async () => {
    const { status, headers } = await asWorld();
    expect(status).to.equal(404);
    expect(headers.get("ratelimit-remaining")).to.match(/^\d+$/);
    expect(headers.get("ratelimit-reset")).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect((await withToken(await forged())).status).to.equal(404);
  });

  const past = Math.floor(Date.now() / 1000) - 1000;
  const bad: [string, () => Promise<string> | string][] = [
    ["expired", () => forged({ iat: past, exp: past + 900 })],
    ["of another audience", () => forged({ aud: `${TOKEN_ISSUER}/sandbox/v1` })],
    ["of another issuer", () => forged({ iss: "http://elsewhere.test" })],
    ["of another environment", () => forged({ environment: "sandbox" })],
    ["without an expiry", () => forged({ exp: undefined as never })],
    ["of another type", () => forged({}, { typ: "JWT" })],
    ["of an unknown key", () => forged({}, { kid: "unknown" })],
    ["of an unknown application", () => forged({ client_id: randomUUID() })],
    ["of an unknown credential", () => forged({ credential_id: randomUUID() })],
    [
      "without an algorithm",
      async () => {
        const [, payload] = (await forged()).split(".");
        const header = Buffer.from(JSON.stringify({ alg: "none", typ: "at+jwt" })).toString("base64url");
        return `${header}.${payload}.`;
      },
    ],
    [
      "tampered with",
      async () => {
        const [header, payload, signature] = (await forged()).split(".") as [string, string, string];
        const claims = JSON.parse(Buffer.from(payload, "base64url").toString());
        const more = Buffer.from(JSON.stringify({ ...claims, scope: "clinic:read" })).toString("base64url");
        return `${header}.${more}.${signature}`;
      },
    ],
    ["no token at all", () => "abc"],
  ];
  for (const [what, token] of bad) {
    it(`401 invalid_token: ${what}`, async () => {
      const { status, body, headers } = await withToken(await token());
      expect(status).to.equal(401);
      expect(body.error).to.equal("invalid_token");
      expect(headers.get("www-authenticate")).to.equal('Bearer error="invalid_token"');
    });
  }

  it("401 missing_token: no Authorization, or another scheme", async () => {
    for (const Authorization of [undefined, "Basic eDp5"]) {
      const { status, body } = await asWorld({ Authorization });
      expect(status).to.equal(401);
      expect(body.error).to.equal("missing_token");
    }
  });

  it("401: a token of one environment at the other's base", async () => {
    expect((await asWorld({}, "sandbox")).status).to.equal(401);
  });

  it("403 clinic_header_invalid: missing or malformed", async () => {
    for (const id of [undefined, "clinic", ""]) {
      const { status, body } = await asWorld({ "X-SERVICE-Clinic-ID": id });
      expect(status).to.equal(403);
      expect(body.error).to.equal("clinic_header_invalid");
    }
  });

  it("403 installation_denied: an installation that is only requested", async () => {
    const { clinicId } = await createClinic(command.log);
    await requestInstallation(command.log, { ...world, clinicId }, operatorContext());
    expect((await asWorld({ "X-SERVICE-Clinic-ID": clinicId })).body.error).to.equal("installation_denied");
  });

  it("403 branch_denied: a branch header that is not a UUID", async () => {
    expect((await asWorld({ "X-SERVICE-Branch-ID": "main" })).body.error).to.equal("branch_denied");
  });

  it("403 insufficient_scope: in the token, or in the installation", async () => {
    expect((await withToken(await forged({ scope: "clinic:read" }))).body.error).to.equal(
      "insufficient_scope",
    );
    const other = await createPartnerWorld(command);
    await narrowInstallation(
      command.log,
      { ...other, branchIds: [other.branchId], scopes: ["clinic:read"] },
      operatorContext(),
    );
    expect((await asWorld(other.headers)).body.error).to.equal("insufficient_scope");
  });

  it("a revocation is effective from the next request", async () => {
    const of = async (revoke: (world: PartnerWorld) => Promise<unknown>) => {
      const other = await createPartnerWorld(command);
      expect((await asWorld(other.headers)).status).to.equal(404);
      await revoke(other);
      const { status, body } = await asWorld(other.headers);
      return [status, body.error];
    };
    const context = operatorContext();
    expect(
      await of((other) => revokeInstallation(command.log, { ...other, reason: null }, context)),
    ).to.deep.equal([403, "installation_denied"]);
    expect(await of((other) => revokeCredential(command.log, other, context))).to.deep.equal([
      401,
      "invalid_token",
    ]);
    expect(
      await of((other) => revokeApplication(command.log, { ...other, reason: null }, context)),
    ).to.deep.equal([401, "invalid_token"]);
  });

  it("429 rate_limit_exceeded: more than was agreed with the clinic", async () => {
    const limited = await createPartnerWorld(command, "production", { rateLimitPerMinute: 3 });
    const remaining: (string | null)[] = [];
    for (let request = 0; request < 3; request += 1) {
      const { status, headers } = await asWorld(limited.headers);
      expect(status).to.equal(404);
      remaining.push(headers.get("ratelimit-remaining"));
    }
    expect(remaining).to.deep.equal(["2", "1", "0"]);
    const { status, body, headers } = await asWorld(limited.headers);
    expect(status).to.equal(429);
    expect(body.error).to.equal("rate_limit_exceeded");
    expect(headers.get("ratelimit-remaining")).to.equal("0");
    const wait = Number(headers.get("retry-after"));
    expect(wait).to.be.within(1, 60);
    expect(Date.parse(headers.get("ratelimit-reset") ?? "") - Date.now()).to.be.within(0, 60_000);
  });

  it("404 and 405: unknown paths and methods", async () => {
    expect((await ask("POST", `${command.url}/production/v1/nothing`)).body.error).to.equal("not_found");
    const { status, headers } = await ask("PUT", `${command.url}/production/v1/appointments`);
    expect([status, headers.get("allow")]).to.deep.equal([405, "GET, HEAD, POST"]);
  });

  it("a sandbox's application works at the sandbox's base", async () => {
    const application = await createApplication(command.log, "sandbox");
    expect((await exchange(command.url, application)).status).to.equal(200);
  });
});
