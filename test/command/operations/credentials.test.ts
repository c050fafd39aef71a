import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { generateCredential, parseCredential } from "../../../command/operations/credentials.ts";

describe("credentials", () => {
  const ownerId = randomUUID();
  const digits = ownerId.replaceAll("-", "");

  it("a generated credential is parsed into its owner and the hash of its secret", () => {
    const { credential, secretHash } = generateCredential("aud", ownerId);
    expect(parseCredential("aud", credential)).to.deep.equal({ ownerId, secretHash });
    expect(parseCredential("op", credential)).to.equal(undefined);
  });

  it("a credential is parsed with any underscores and hyphens in its secret", () => {
    for (const character of "_-a") {
      for (const other of "_-a") {
        for (let start = 0; start < 43; start += 1) {
          const secret = character.repeat(start) + other.repeat(43 - start);
          expect(parseCredential("aud", `aud_${digits}_${secret}`)?.ownerId, secret).to.equal(ownerId);
        }
      }
    }
    const secret = `${"a".repeat(5)}_${"b".repeat(32)}_${"c".repeat(4)}`;
    expect(parseCredential("aud", `aud_${digits}_${secret}`)?.ownerId).to.equal(ownerId);
  });

  for (const [description, text] of [
    ["a short secret", `aud_${digits}_${"a".repeat(42)}`],
    ["a long secret", `aud_${digits}_${"a".repeat(44)}`],
    ["upper-case digits", `aud_${digits.toUpperCase().replace(/\d/g, "A")}_${"a".repeat(43)}`],
    ["a line break at the end", `aud_${digits}_${"a".repeat(43)}\n`],
  ] as const)
    it(`a text with ${description} is no credential`, () => {
      expect(parseCredential("aud", text)).to.equal(undefined);
    });
});
