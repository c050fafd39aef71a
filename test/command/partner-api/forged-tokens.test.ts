import { createPrivateKey, createPublicKey, type KeyObject, randomUUID, sign } from "node:crypto";
import { expect } from "chai";
import { type JWK, SignJWT } from "jose";
import { pino } from "pino";
import { createRemoteKeys } from "../../../query-api/http/remote-keys.ts";
import { createTokenVerifier, type TokenVerifier } from "../../../shared/auth/access-token.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import { createSigningKey } from "../../support/asymmetric-keys.ts";
import {
  createPartnerWorld,
  type PartnerWorld,
  sendRequest,
  startTestCommandService,
  TOKEN_ISSUER,
} from "../../support/partner.ts";
import { useResource } from "../../support/resources.ts";

/** Header or payload of a token. May be invalid. */
type TokenPart = Record<string, unknown>;

const encode = (content: unknown) => Buffer.from(JSON.stringify(content)).toString("base64url");

/** Signs with Ed25519 even if the header names another algorithm. Libraries refuse this. */
function signUnchecked(header: TokenPart, payload: TokenPart, key: KeyObject): string {
  const content = `${encode(header)}.${encode(payload)}`;
  return `${content}.${sign(null, Buffer.from(content), key).toString("base64url")}`;
}

describe("forged access tokens", () => {
  const command = useResource(startTestCommandService);
  let world: PartnerWorld;
  /** Verifies tokens with keys fetched over HTTP, as the query API does. */
  let verifyRemotely: TokenVerifier;
  let signingKey: KeyObject;
  let publicJwk: JWK;
  let foreignJwk: JWK;
  let foreignKey: KeyObject;

  before(async () => {
    world = await createPartnerWorld(command);
    signingKey = createPrivateKey({ key: command.signingKey as never, format: "jwk" });
    foreignJwk = await createSigningKey("foreign");
    foreignKey = createPrivateKey({ key: foreignJwk as never, format: "jwk" });
    const jwksUrl = `${command.url}/.well-known/jwks.json`;
    publicJwk = (await sendRequest("GET", jwksUrl)).body.keys[0];
    const keys = await createRemoteKeys(
      { url: new URL(jwksUrl), name: "keys", maxStaleAgeMs: 0 },
      pino({ enabled: false }),
    );
    verifyRemotely = createTokenVerifier(keys, TOKEN_ISSUER);
  });

  const now = () => Math.floor(Date.now() / 1000);
  const createHeader = (overrides: TokenPart = {}): TokenPart => ({
    alg: "EdDSA",
    typ: "at+jwt",
    kid: "test",
    ...overrides,
  });
  const createClaims = (overrides: TokenPart = {}): TokenPart => ({
    client_id: world.applicationId,
    credential_id: world.credentialId,
    environment: "production",
    scope: "webhooks:write",
    sub: world.applicationId,
    iss: TOKEN_ISSUER,
    jti: randomUUID(),
    aud: `${TOKEN_ISSUER}/production/v1`,
    iat: now(),
    exp: now() + 900,
    ...overrides,
  });
  const sign = (headerFields: TokenPart = {}, claimFields: TokenPart = {}, key = signingKey) =>
    signUnchecked(createHeader(headerFields), createClaims(claimFields), key);
  const signByHmac = (secret: string | Uint8Array, alg = "HS256") =>
    new SignJWT(createClaims())
      .setProtectedHeader({ alg, typ: "at+jwt", kid: "test" })
      .sign(typeof secret === "string" ? Buffer.from(secret) : secret);
  const exportPublicPem = () =>
    createPublicKey({ key: { ...publicJwk } as never, format: "jwk" }).export({
      type: "spki",
      format: "pem",
    }) as string;

  const verifyOverHttp = async (token: string, environment = "production") => {
    const headers = { Authorization: `Bearer ${token}`, "X-SERVICE-Clinic-ID": world.clinicId };
    const url = `${command.url}/${environment}/v1/webhook-endpoints/${randomUUID()}`;
    const response = await sendRequest("DELETE", url, headers);
    const challenge = response.status === 401 ? 'Bearer error="invalid_token"' : null;
    expect(response.headers.get("www-authenticate")).to.equal(challenge);
    return [response.status, response.body.error];
  };
  const getRemoteResult = (token: string) =>
    verifyRemotely([`Bearer ${token}`], "production").then(
      () => "accepted",
      (error) => (error instanceof ApiError ? [error.status, error.code] : error),
    );

  it("a token that was not forged is accepted", async () => {
    expect(await verifyOverHttp(sign())).to.deep.equal([404, "webhook_endpoint_not_found"]);
    expect(await getRemoteResult(sign())).to.equal("accepted");
  });

  const forgeries: [string, () => string | Promise<string>][] = [
    ["HS256 with the public key's bytes as the secret", () => signByHmac(Buffer.from(publicJwk.x ?? "", "base64url"))],
    ["HS256 with the public key's base64url as the secret", () => signByHmac(publicJwk.x ?? "")],
    ["HS256 with the public key's PEM as the secret", () => signByHmac(exportPublicPem())],
    ["HS512 with the public JWK as the secret", () => signByHmac(JSON.stringify(publicJwk), "HS512")],
    ["no algorithm and no signature", () => `${encode(createHeader({ alg: "none" }))}.${encode(createClaims())}.`],
    ["no algorithm but a valid signature", () => sign({ alg: "none" })],
    ["the algorithm name in lower case", () => sign({ alg: "eddsa" })],
    ["the algorithm HS256 but a valid EdDSA signature", () => sign({ alg: "HS256" })],
    ["the algorithm RS256 but a valid EdDSA signature", () => sign({ alg: "RS256" })],
    ["an algorithm that is not a string", () => sign({ alg: ["EdDSA"] })],
    ["a signature by a foreign key under the published key id", () => sign({}, {}, foreignKey)],
    ["a foreign key in the header", () => sign({ jwk: { ...foreignJwk, d: undefined } }, {}, foreignKey)],
    [
      "the URL of a foreign key in the header",
      () => sign({ jku: "http://127.0.0.1:9/jwks.json", kid: "theirs" }, {}, foreignKey),
    ],
    ["an unknown key id", () => sign({ kid: "unknown" })],
    ["a key id that is a path", () => sign({ kid: "../../etc/passwd" })],
    ["an unknown critical extension", () => sign({ crit: ["http://example.test/ext"], "http://example.test/ext": 1 })],
    ["a critical extension that is missing", () => sign({ crit: ["exp"] })],
    ["an unencoded payload", () => sign({ b64: false, crit: ["b64"] })],
    ["the type of an id token", () => sign({ typ: "JWT" })],
    ["no type", () => sign({ typ: undefined })],
    ["another issuer", () => sign({}, { iss: "http://elsewhere.test" })],
    ["a trailing slash in the issuer", () => sign({}, { iss: `${TOKEN_ISSUER}/` })],
    ["no issuer", () => sign({}, { iss: undefined })],
    ["the other environment's audience", () => sign({}, { aud: `${TOKEN_ISSUER}/sandbox/v1` })],
    ["no audience", () => sign({}, { aud: undefined })],
    ["the other environment in a claim", () => sign({}, { environment: "sandbox" })],
    ["an expiry a minute ago", () => sign({}, { iat: now() - 960, exp: now() - 60 })],
    ["a string as expiry", () => sign({}, { exp: "2099-01-01" })],
    ["no expiry", () => sign({}, { exp: undefined })],
    ["a not-before time in one hour", () => sign({}, { nbf: now() + 3600 })],
    ["no issuing time", () => sign({}, { iat: undefined })],
    ["no subject", () => sign({}, { sub: undefined })],
    ["no token id", () => sign({}, { jti: undefined })],
    ["no credential", () => sign({}, { credential_id: undefined })],
    ["a client id that is not a UUID", () => sign({}, { client_id: "x" })],
    ["an unknown scope", () => sign({}, { scope: "webhooks:write everything" })],
    ["scopes in a list", () => sign({}, { scope: ["webhooks:write"] })],
    ["a payload that is not an object", () => signUnchecked(createHeader(), [] as never, signingKey)],
    [
      "a tampered payload",
      () => {
        const [headerPart, , signature] = sign().split(".");
        return `${headerPart}.${encode(createClaims({ scope: "webhooks:write clinic:read" }))}.${signature}`;
      },
    ],
    [
      "a tampered header",
      () => {
        const [, payloadPart, signature] = sign().split(".");
        return `${encode(createHeader({ extra: 1 }))}.${payloadPart}.${signature}`;
      },
    ],
    ["a truncated signature", () => sign().slice(0, -4)],
    [
      "a signature of zeros",
      () => `${sign().split(".").slice(0, 2).join(".")}.${Buffer.alloc(64).toString("base64url")}`,
    ],
    ["five parts", () => `${sign()}.x.y`],
    ["only one part", () => "x"],
    ["a header that is not JSON", () => `x.${sign().split(".").slice(1).join(".")}`],
  ];
  for (const [caseName, forge] of forgeries) {
    it(`a token with ${caseName} gets 401 invalid_token`, async () => {
      const token = await forge();
      expect(await verifyOverHttp(token), "by the command service").to.deep.equal([401, "invalid_token"]);
      expect(await getRemoteResult(token), "by keys over HTTP").to.deep.equal([401, "invalid_token"]);
    });
  }

  it("a token of an unknown application or credential gets 401 invalid_token", async () => {
    for (const claims of [{ client_id: randomUUID() }, { credential_id: randomUUID() }])
      expect(await verifyOverHttp(sign({}, claims))).to.deep.equal([401, "invalid_token"]);
  });

  it("a valid token of each environment gets 401 at the base path of the other environment", async () => {
    expect(await verifyOverHttp(world.token, "sandbox")).to.deep.equal([401, "invalid_token"]);
    const sandboxWorld = await createPartnerWorld(command, "sandbox");
    expect(await verifyOverHttp(sandboxWorld.token, "production")).to.deep.equal([401, "invalid_token"]);
  });

  it("a request without a Bearer token gets 401 missing_token", async () => {
    const values = ["Bearer", "Bearer  ", "bearer:x", "Basic eDp5", `Token ${world.token}`, `Bearer ${world.token} x`];
    for (const headers of [{}, ...values.map((Authorization) => ({ Authorization }))]) {
      const url = `${command.url}/production/v1/webhook-endpoints/${randomUUID()}`;
      const { status, body } = await sendRequest("DELETE", url, headers);
      expect([status, body.error], JSON.stringify(headers)).to.deep.equal([401, "missing_token"]);
    }
  });
});
