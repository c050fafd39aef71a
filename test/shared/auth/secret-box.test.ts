import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { CompactEncrypt, decodeProtectedHeader } from "jose";
import { createSecretBox, SecretBoxError } from "../../../shared/auth/secret-box.ts";

const randomKey = () => randomBytes(32).toString("base64");

/** @returns the error of a failed call to `open`, or the text "opened" */
async function errorOf(open: Promise<string>): Promise<unknown> {
  return open.then(
    () => "opened",
    (error) => error,
  );
}

describe("secret box", () => {
  const [one, two] = [randomKey(), randomKey()];
  const former = createSecretBox({ current: "one", keys: { one } });
  const rotated = createSecretBox({ current: "two", keys: { one, two } });
  const later = createSecretBox({ current: "two", keys: { two } });

  it("a secret box can decrypt an encrypted secret, and the header of the encrypted secret names the key", async () => {
    const sealed = await former.seal("whsec_secret");
    expect(decodeProtectedHeader(sealed)).to.deep.equal({ alg: "dir", enc: "A256GCM", kid: "one" });
    expect(sealed).not.to.include("whsec");
    expect(await former.open(sealed)).to.equal("whsec_secret");
    expect(await former.seal("whsec_secret")).not.to.equal(sealed);
  });

  it("a secret box decrypts with every configured key and encrypts with the current key", async () => {
    expect(await rotated.open(await former.seal("secret"))).to.equal("secret");
    expect(await later.open(await rotated.seal("secret"))).to.equal("secret");
  });

  it("a secret box cannot decrypt a secret if the key was removed, or the text or the algorithm was changed", async () => {
    expect(await errorOf(later.open(await former.seal("secret")))).to.be.instanceOf(SecretBoxError);
    const sealed = (await former.seal("secret")).split(".");
    const [, , , text = ""] = sealed;
    const changed = sealed.with(3, (text[0] === "A" ? "B" : "A") + text.slice(1)).join(".");
    expect(await errorOf(former.open(changed))).to.be.instanceOf(SecretBoxError);
    expect(await errorOf(former.open("nothing"))).to.be.instanceOf(SecretBoxError);
    const otherwise = await new CompactEncrypt(new TextEncoder().encode("secret"))
      .setProtectedHeader({ alg: "A256KW", enc: "A256GCM", kid: "one" })
      .encrypt(Buffer.from(one, "base64"));
    expect(await errorOf(former.open(otherwise))).to.be.instanceOf(SecretBoxError);
  });
});
