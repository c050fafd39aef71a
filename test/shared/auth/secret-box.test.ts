import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { CompactEncrypt, decodeProtectedHeader } from "jose";
import { createSecretBox, SecretBoxError } from "../../../shared/auth/secret-box.ts";

const createKey = () => randomBytes(32).toString("base64");

/** Returns the error of a call to `open`, or "opened" if it succeeds. */
async function catchError(openPromise: Promise<string>): Promise<unknown> {
  return openPromise.then(
    () => "opened",
    (error) => error,
  );
}

describe("secret box", () => {
  const [firstKey, secondKey] = [createKey(), createKey()];
  const formerBox = createSecretBox({ current: "one", keys: { one: firstKey } });
  const rotatedBox = createSecretBox({ current: "two", keys: { one: firstKey, two: secondKey } });
  const laterBox = createSecretBox({ current: "two", keys: { two: secondKey } });

  it("a secret box can decrypt an encrypted secret, and the header of the encrypted secret names the key", async () => {
    const sealedSecret = await formerBox.seal("whsec_secret");
    expect(decodeProtectedHeader(sealedSecret)).to.deep.equal({ alg: "dir", enc: "A256GCM", kid: "one" });
    expect(sealedSecret).not.to.include("whsec");
    expect(await formerBox.open(sealedSecret)).to.equal("whsec_secret");
    expect(await formerBox.seal("whsec_secret")).not.to.equal(sealedSecret);
  });

  it("a secret box recognises secrets that were encrypted with its current key", async () => {
    const sealedSecret = await formerBox.seal("whsec_secret");
    expect([formerBox, rotatedBox].map((box) => box.isSealedWithCurrentKey(sealedSecret))).to.deep.equal([true, false]);
  });

  it("a secret box decrypts with every configured key and encrypts with the current key", async () => {
    expect(await rotatedBox.open(await formerBox.seal("secret"))).to.equal("secret");
    expect(await laterBox.open(await rotatedBox.seal("secret"))).to.equal("secret");
  });

  it("a secret box cannot decrypt a secret if the key was removed, or the text or the algorithm was changed", async () => {
    expect(await catchError(laterBox.open(await formerBox.seal("secret")))).to.be.instanceOf(SecretBoxError);
    const sealedParts = (await formerBox.seal("secret")).split(".");
    const [, , , ciphertext = ""] = sealedParts;
    const changedSecret = sealedParts.with(3, (ciphertext[0] === "A" ? "B" : "A") + ciphertext.slice(1)).join(".");
    expect(await catchError(formerBox.open(changedSecret))).to.be.instanceOf(SecretBoxError);
    expect(await catchError(formerBox.open("nothing"))).to.be.instanceOf(SecretBoxError);
    const wrongSecret = await new CompactEncrypt(new TextEncoder().encode("secret"))
      .setProtectedHeader({ alg: "A256KW", enc: "A256GCM", kid: "one" })
      .encrypt(Buffer.from(firstKey, "base64"));
    expect(await catchError(formerBox.open(wrongSecret))).to.be.instanceOf(SecretBoxError);
  });
});
