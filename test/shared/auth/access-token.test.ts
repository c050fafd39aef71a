import { expect } from "chai";
import { createLocalJWKSet, exportJWK, generateKeyPair } from "jose";
import { createTokenVerifier, type TokenVerifier } from "../../../shared/auth/access-token.ts";
import type { ApiError } from "../../../shared/http/api-error.ts";

describe("a forged access token", () => {
  let verify: TokenVerifier;

  // Two keys, as they are published while one takes the place of the other.
  before(async () => {
    const newKey = async (kid: string) => {
      const { publicKey } = await generateKeyPair("EdDSA", { crv: "Ed25519" });
      return { ...(await exportJWK(publicKey)), kid, alg: "EdDSA", use: "sig" };
    };
    const keys = createLocalJWKSet({ keys: [await newKey("old"), await newKey("new")] });
    verify = createTokenVerifier(keys, "https://partner.example");
  });

  const encoded = (part: unknown) => Buffer.from(JSON.stringify(part)).toString("base64url");
  const signature = Buffer.alloc(64).toString("base64url");
  const bySignature = (header: unknown) => `${encoded(header)}.${encoded({})}.${signature}`;

  for (const [what, token] of [
    ["that names no key", bySignature({ alg: "EdDSA", typ: "at+jwt" })],
    ["that names an unknown key", bySignature({ alg: "EdDSA", typ: "at+jwt", kid: "other" })],
    ["whose key's name is no text", bySignature({ alg: "EdDSA", typ: "at+jwt", kid: {} })],
    ["by another algorithm", bySignature({ alg: "HS256", typ: "at+jwt", kid: "new" })],
    ["by no algorithm", bySignature({ alg: "none", typ: "at+jwt" })],
    ["that brings its key", bySignature({ alg: "EdDSA", typ: "at+jwt", kid: "new", jwk: { kty: "OKP" } })],
    [
      "with an extension",
      bySignature({ alg: "EdDSA", typ: "at+jwt", kid: "new", crit: ["b64"], b64: false }),
    ],
    ["whose header is no object", bySignature(null)],
    ["of too few parts", "a.b"],
    ["that is encrypted", "a.b.c.d.e"],
  ] as const) {
    it(`is the caller's fault where it is one ${what}`, async () => {
      const error: ApiError = await verify([`Bearer ${token}`], "sandbox").then(
        () => expect.fail("it was let in"),
        (refusal) => refusal,
      );
      expect([error.status, error.code]).to.deep.equal([401, "invalid_token"]);
    });
  }
});
