import { expect } from "chai";
import { createLocalJWKSet, exportJWK, generateKeyPair } from "jose";
import { createTokenVerifier, type TokenVerifier } from "../../../shared/auth/access-token.ts";
import type { ApiError } from "../../../shared/http/api-error.ts";

describe("access token verification", () => {
  let verify: TokenVerifier;

  // During a key rotation, two keys are published.
  before(async () => {
    const createKey = async (kid: string) => {
      const { publicKey } = await generateKeyPair("EdDSA", { crv: "Ed25519" });
      return { ...(await exportJWK(publicKey)), kid, alg: "EdDSA", use: "sig" };
    };
    const keys = createLocalJWKSet({ keys: [await createKey("old"), await createKey("new")] });
    verify = createTokenVerifier(keys, "https://partner.example");
  });

  const encode = (content: unknown) => Buffer.from(JSON.stringify(content)).toString("base64url");
  const signature = Buffer.alloc(64).toString("base64url");
  const createToken = (header: unknown) => `${encode(header)}.${encode({})}.${signature}`;

  for (const [caseName, token] of [
    ["without a key id", createToken({ alg: "EdDSA", typ: "at+jwt" })],
    ["whose key id is not a string", createToken({ alg: "EdDSA", typ: "at+jwt", kid: {} })],
    ["whose header is not an object", createToken(null)],
    ["with too few parts", "a.b"],
  ] as const)
    it(`an access token ${caseName} is refused with 401`, async () => {
      const error: ApiError = await verify([`Bearer ${token}`], "sandbox").then(
        () => expect.fail("the token was accepted"),
        (refusal) => refusal,
      );
      expect([error.status, error.code]).to.deep.equal([401, "invalid_token"]);
    });
});
