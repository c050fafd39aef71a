import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { decodeProtectedHeader, exportJWK, generateKeyPair, type JWK } from "jose";
import { pino } from "pino";
import { createRemoteKeys } from "../../../query-api/http/remote-keys.ts";
import { createTokenVerifier } from "../../../shared/auth/access-token.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import { eventually } from "../../support/eventually.ts";
import { findFreePort } from "../../support/free-ports.ts";
import {
  createPartnerWorld,
  type PartnerWorld,
  sendRequest,
  sendTokenRequest,
  startTestCommandService,
  type TestCommand,
  TOKEN_ISSUER,
} from "../../support/partner.ts";

/** Time for which a remote verifier caches the keys in these tests. Milliseconds. */
const KEY_CACHE_MS = 400;

describe("rotation of the token signing keys", () => {
  let port: string;
  let keys: Record<"a" | "b", JWK>;
  let command: TestCommand | undefined;
  let world: PartnerWorld;

  const createKey = async (kid: string) => ({
    ...(await exportJWK((await generateKeyPair("EdDSA", { extractable: true })).privateKey)),
    kid,
  });
  /** Restarts the command service on the same port with the given signing keys. The first key signs. */
  async function serveWithKeys(...kids: ("a" | "b")[]): Promise<TestCommand> {
    await command?.stop();
    const TOKEN_SIGNING_KEYS = JSON.stringify({ keys: kids.map((kid) => keys[kid]) });
    command = await startTestCommandService({ PORT: port, TOKEN_SIGNING_KEYS });
    return command;
  }
  /** Creates a verifier with its own cache of the published keys, as in another process. */
  async function createRemoteVerifier() {
    const url = new URL(`http://127.0.0.1:${port}/.well-known/jwks.json`);
    const source = { url, name: "keys", maxStaleAgeMs: 60_000 };
    const keyCaching = { maxAgeMs: KEY_CACHE_MS, cooldownMs: 0 };
    const verify = createTokenVerifier(
      await createRemoteKeys(source, pino({ enabled: false }), keyCaching),
      TOKEN_ISSUER,
    );
    return (token: string) =>
      verify([`Bearer ${token}`], "production").then(
        () => "accepted",
        (error) => (error instanceof ApiError ? error.code : Promise.reject(error)),
      );
  }
  const getStatus = async (token: string) => {
    const headers = { ...world.headers, Authorization: `Bearer ${token}` };
    const url = `${command?.url}/production/v1/webhook-endpoints/${randomUUID()}`;
    return (await sendRequest("DELETE", url, headers)).status;
  };
  const requestToken = async () => (await sendTokenRequest(command?.url ?? "", world)).body.access_token as string;

  before(async () => {
    port = String(await findFreePort());
    keys = { a: await createKey("a"), b: await createKey("b") };
    world = await createPartnerWorld(await serveWithKeys("a"));
  });

  it("the command service and a remote verifier accept old tokens only while the old key is published", async () => {
    const verifyRemotely = await createRemoteVerifier();
    const oldToken = await requestToken();
    expect(decodeProtectedHeader(oldToken).kid).to.equal("a");
    expect([await getStatus(oldToken), await verifyRemotely(oldToken)]).to.deep.equal([404, "accepted"]);

    await serveWithKeys("b", "a");
    const youngToken = await requestToken();
    expect(decodeProtectedHeader(youngToken).kid).to.equal("b");
    expect([await getStatus(oldToken), await getStatus(youngToken)]).to.deep.equal([404, 404]);
    expect([await verifyRemotely(youngToken), await verifyRemotely(oldToken)]).to.deep.equal(["accepted", "accepted"]);

    await serveWithKeys("b");
    expect([await getStatus(oldToken), await getStatus(youngToken)]).to.deep.equal([401, 404]);
    await eventually(
      "the old key is no longer cached",
      async () => (await verifyRemotely(oldToken)) === "invalid_token",
      KEY_CACHE_MS + 5_000,
    );
    expect(await verifyRemotely(youngToken)).to.equal("accepted");
  });

  it("a remote verifier that cannot fetch keys uses the cached keys, and returns 503 for an unknown key", async () => {
    await serveWithKeys("a");
    const knownToken = await requestToken();
    const verifyRemotely = await createRemoteVerifier();
    const fetchedAt = performance.now();
    await serveWithKeys("b");
    const unknownToken = await requestToken();
    await command?.stop();
    command = undefined;
    await eventually("the keys are no longer fresh", () => performance.now() - fetchedAt > KEY_CACHE_MS);
    for (let round = 0; round < 3; round += 1) {
      expect(await verifyRemotely(knownToken)).to.equal("accepted");
      expect(await verifyRemotely(unknownToken)).to.equal("token_keys_unavailable");
    }
    expect(await (await createRemoteVerifier())(knownToken)).to.equal("token_keys_unavailable");
  });
});
