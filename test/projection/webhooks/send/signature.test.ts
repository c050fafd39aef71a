import { expect } from "chai";
import { createAsymmetricSigner, exportWebhookKeys } from "../../../../shared/webhooks/asymmetric-signature.ts";
import { createSignatureHeaders, toSignedText } from "../../../../shared/webhooks/delivery-headers.ts";
import { createSigningKey, verifyWithJwk, verifyWithWhpk } from "../../../support/asymmetric-keys.ts";
import { getRejection } from "../../../support/rejection.ts";
import { listAcceptingLibraries, webhookLibraries, webhookLibraryNames } from "../../../support/webhook-libraries.ts";

const createSecret = (fillByte: number) => `whsec_${Buffer.alloc(32, fillByte).toString("base64")}`;
const createContent = () => ({
  deliveryId: "0d8f4cb6-7c1f-5a8c-9d39-1f2f61f9f9a1",
  timestamp: Math.floor(Date.now() / 1_000),
  body: '{"name":"Pâté 🐈"}',
});

describe("webhook signature", () => {
  it("the signature of the example in the Standard Webhooks specification is correct", () => {
    const headers = createSignatureHeaders(
      { deliveryId: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1614265330, body: '{"test": 2432232314}' },
      ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
      "SERVICE",
    );
    expect(headers["webhook-signature"]).to.equal("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  });

  for (const libraryName of webhookLibraryNames) {
    const verify = (fillByte: number, body: string, headers: Record<string, string>) =>
      new webhookLibraries[libraryName](createSecret(fillByte)).verify(body, headers);

    it(`the ${libraryName} package accepts a signature with each of two secrets, and rejects the signature with other secrets`, () => {
      const content = createContent();
      const headers = createSignatureHeaders(content, [createSecret(1), createSecret(2)], "SERVICE");
      for (const fillByte of [1, 2])
        expect(verify(fillByte, content.body, headers)).to.deep.equal(JSON.parse(content.body));
      expect(() => verify(3, content.body, headers)).to.throw("No matching signature found");
    });

    it(`the ${libraryName} package rejects a signature if the body, the id or the time was changed`, () => {
      const content = createContent();
      const headers = createSignatureHeaders(content, [createSecret(1)], "SERVICE");
      const changedHeaders = { "webhook-id": "other", "webhook-timestamp": String(content.timestamp + 1) };
      expect(() => verify(1, `${content.body} `, headers)).to.throw("No matching signature found");
      for (const [name, value] of Object.entries(changedHeaders)) {
        const forgedHeaders = { ...headers, [name]: value };
        expect(() => verify(1, content.body, forgedHeaders)).to.throw("No matching signature found");
      }
    });

    it(`the ${libraryName} package rejects a timestamp that is too old or in the future`, () => {
      for (const [offsetSeconds, problem] of [
        [-301, "Message timestamp too old"],
        [310, "Message timestamp too new"],
      ] as const) {
        const content = createContent();
        const headers = createSignatureHeaders(
          { ...content, timestamp: content.timestamp + offsetSeconds },
          [createSecret(1)],
          "SERVICE",
        );
        expect(() => verify(1, content.body, headers)).to.throw(problem);
      }
    });
  }

  it("an asymmetric signature follows the other signatures, and both forms of the published key verify it", async () => {
    const content = createContent();
    const keys = await Promise.all(["new", "old"].map(createSigningKey));
    const signAsymmetrically = await createAsymmetricSigner(keys);
    const asymmetricSignature = await signAsymmetrically(toSignedText(content));
    const headers = createSignatureHeaders(content, [createSecret(1)], "SERVICE", [asymmetricSignature]);
    const [v1, v1a] = headers["webhook-signature"]!.split(" ");
    expect(v1).to.match(/^v1,/);
    expect(v1a).to.equal(asymmetricSignature);
    const webhookKeys = await exportWebhookKeys(keys);
    expect(webhookKeys.keys.map(({ kid }) => kid)).to.deep.equal(["new", "old"]);
    expect(JSON.stringify(webhookKeys)).to.not.include(keys[0]!.d);
    const text = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${content.body}`;
    const accepts = (text: string) =>
      Promise.all(
        webhookKeys.keys.map((key) => Promise.all([verifyWithJwk(key, text, v1a!), verifyWithWhpk(key, text, v1a!)])),
      );
    expect(await accepts(text)).to.deep.equal([
      [true, true],
      [false, false],
    ]);
    expect(await accepts(`${text} `)).to.deep.equal([
      [false, false],
      [false, false],
    ]);
    // Libraries that support only symmetric signatures ignore the asymmetric signature.
    expect(listAcceptingLibraries(createSecret(1), { body: content.body, headers })).to.deep.equal(webhookLibraryNames);
  });

  it("a key that is not an Ed25519 private key is refused with its id", async () => {
    const key = { ...(await createSigningKey("broken")), d: "AAAA" };
    const error = await getRejection(createAsymmetricSigner([key]));
    expect(error.message).to.equal("settings: WEBHOOK_SIGNING_KEYS: key broken is not an Ed25519 private key");
  });

  it("a signature is sent both in headers with branded names and in headers with standard names", () => {
    const content = createContent();
    const { deliveryId, timestamp } = content;
    const headers = createSignatureHeaders(content, [createSecret(1)], "PAWS");
    expect(headers).to.include({
      "X-PAWS-Signature": headers["webhook-signature"],
      "X-PAWS-Timestamp": String(timestamp),
      "X-PAWS-Delivery-ID": deliveryId,
      "webhook-timestamp": String(timestamp),
      "webhook-id": deliveryId,
    });
  });
});
