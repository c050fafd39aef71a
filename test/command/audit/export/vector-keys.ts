/** Keys of the test vectors: the published secret keys of tests 1 to 3 in RFC 8032, section 7.1. */
import { type AuditSigner, createAuditSigner } from "../../../../command/audit/export/signing.ts";

export type TestKey = { kty: "OKP"; crv: "Ed25519"; d: string; x: string; kid: string };

const createKey = (kid: string, secretHex: string, publicHex: string): TestKey => ({
  kty: "OKP",
  crv: "Ed25519",
  kid,
  d: Buffer.from(secretHex, "hex").toString("base64url"),
  x: Buffer.from(publicHex, "hex").toString("base64url"),
});

export const signingKey = createKey(
  "current",
  "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
  "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
);
export const retiredKey = createKey(
  "retired",
  "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
  "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
);
/** Key that is trusted only by `other-keys.json`. */
export const otherKey = createKey(
  "other",
  "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
  "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
);

/** Creates a signer for AUDIT_SIGNING_KEYS with these keys. The first key signs. */
export const createTestSigner = (...keys: TestKey[]): Promise<AuditSigner> =>
  createAuditSigner({ AUDIT_SIGNING_KEYS: { keys } });
