import { expect } from "chai";
import { Webhook } from "standardwebhooks";
import { signatureHeaders } from "../../../projection/webhooks/signature.ts";

const secret = (fill: number) => `whsec_${Buffer.alloc(32, fill).toString("base64")}`;
const content = () => ({
  deliveryId: "0d8f4cb6-7c1f-5a8c-9d39-1f2f61f9f9a1",
  timestamp: Math.floor(Date.now() / 1_000),
  body: '{"name":"Pâté 🐈"}',
});

describe("webhook signature", () => {
  it("is what the specification's own example says", () => {
    const headers = signatureHeaders(
      {
        deliveryId: "msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp: 1614265330,
        body: '{"test": 2432232314}',
      },
      ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
      "SERVICE",
    );
    expect(headers["webhook-signature"]).to.equal("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  });

  it("is verified by the standardwebhooks package, with either of two secrets", () => {
    const signed = content();
    const headers = signatureHeaders(signed, [secret(1), secret(2)], "SERVICE");
    for (const fill of [1, 2]) new Webhook(secret(fill)).verify(signed.body, headers);
    expect(() => new Webhook(secret(3)).verify(signed.body, headers)).to.throw();
    expect(() => new Webhook(secret(1)).verify(`${signed.body} `, headers)).to.throw();
  });

  it("goes under the brand's names and the standard's", () => {
    const { deliveryId, timestamp, ...rest } = content();
    const headers = signatureHeaders({ deliveryId, timestamp, ...rest }, [secret(1)], "PAWS");
    expect(headers).to.include({
      "X-PAWS-Signature": headers["webhook-signature"],
      "X-PAWS-Timestamp": String(timestamp),
      "X-PAWS-Delivery-ID": deliveryId,
      "webhook-timestamp": String(timestamp),
      "webhook-id": deliveryId,
    });
  });
});
