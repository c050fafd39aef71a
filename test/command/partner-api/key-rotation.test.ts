import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { decodeProtectedHeader, exportJWK, generateKeyPair, type JWK } from "jose";
import { pino } from "pino";
import { findFreePorts } from "../../../deploy/local/setup/ports.ts";
import { createTokenKeys } from "../../../query-api/partner/token-keys.ts";
import { createTokenVerifier } from "../../../shared/auth/access-token.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import { eventually } from "../../support/eventually.ts";
import {
  ask,
  createPartnerWorld,
  exchange,
  type PartnerWorld,
  startTestCommand,
  type TestCommand,
  TOKEN_ISSUER,
} from "../../support/partner.ts";

/** Keys that a verifier elsewhere has fetched are fresh for so long here. Milliseconds. */
const FRESH_FOR = 400;

describe("rotation of the token signing keys", () => {
  let port: string;
  let keys: Record<"a" | "b", JWK>;
  let command: TestCommand | undefined;
  let world: PartnerWorld;

  const newKey = async (kid: string) => ({
    ...(await exportJWK((await generateKeyPair("EdDSA", { extractable: true })).privateKey)),
    kid,
  });
  /** The command service with these keys, in this order, always at the same address. */
  async function serve(...kids: ("a" | "b")[]): Promise<TestCommand> {
    await command?.stop();
    const TOKEN_SIGNING_KEYS = JSON.stringify({ keys: kids.map((kid) => keys[kid]) });
    command = await startTestCommand({ PORT: port, TOKEN_SIGNING_KEYS });
    return command;
  }
  /** Another process's verifier, with its own cache of the published keys. */
  function verifierElsewhere() {
    const url = new URL(`http://127.0.0.1:${port}/.well-known/jwks.json`);
    const age = { maxAgeMs: FRESH_FOR, cooldownMs: 0 };
    const verify = createTokenVerifier(createTokenKeys(url, pino({ enabled: false }), age), TOKEN_ISSUER);
    return (token: string) =>
      verify([`Bearer ${token}`], "production").then(
        () => "let through",
        (error) => (error instanceof ApiError ? error.code : Promise.reject(error)),
      );
  }
  const use = async (token: string) => {
    const headers = { ...world.headers, Authorization: `Bearer ${token}` };
    const url = `${command?.url}/production/v1/webhook-endpoints/${randomUUID()}`;
    return (await ask("DELETE", url, headers)).status;
  };
  const newToken = async () => (await exchange(command?.url ?? "", world)).body.access_token as string;

  before(async () => {
    port = String(Object.values(await findFreePorts())[0]);
    keys = { a: await newKey("a"), b: await newKey("b") };
    world = await createPartnerWorld(await serve("a"));
  });
  after(() => command?.stop());

  it("lets old tokens work while their key is published, and no longer, here and in a verifier elsewhere", async () => {
    const elsewhere = verifierElsewhere();
    const old = await newToken();
    expect(decodeProtectedHeader(old).kid).to.equal("a");
    expect([await use(old), await elsewhere(old)]).to.deep.equal([404, "let through"]);

    await serve("b", "a");
    const young = await newToken();
    expect(decodeProtectedHeader(young).kid).to.equal("b");
    expect([await use(old), await use(young)]).to.deep.equal([404, 404]);
    expect([await elsewhere(young), await elsewhere(old)]).to.deep.equal(["let through", "let through"]);

    await serve("b");
    expect([await use(old), await use(young)]).to.deep.equal([401, 404]);
    await eventually(
      "the old key is forgotten",
      async () => (await elsewhere(old)) === "invalid_token",
      FRESH_FOR + 5_000,
    );
    expect(await elsewhere(young)).to.equal("let through");
  });

  it("goes on with the keys it had while they cannot be fetched, and says 503 for one it never had", async () => {
    await serve("a");
    const elsewhere = verifierElsewhere();
    const known = await newToken();
    expect(await elsewhere(known)).to.equal("let through");
    const fetchedAt = performance.now();
    await serve("b");
    const unknown = await newToken();
    await command?.stop();
    command = undefined;
    await eventually("the keys are no longer fresh", () => performance.now() - fetchedAt > FRESH_FOR);
    for (let round = 0; round < 3; round += 1) {
      expect(await elsewhere(known)).to.equal("let through");
      expect(await elsewhere(unknown)).to.equal("token_keys_unavailable");
    }
    expect(await verifierElsewhere()(known)).to.equal("token_keys_unavailable");
  });
});
