import { createHmac, timingSafeEqual } from "node:crypto";

export function isAuthentic(secret, id, timestamp, signatures, body) {
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= 300)) return false;
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const hmac = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body);
  const expected = Buffer.from(`v1,${hmac.digest("base64")}`);
  return signatures
    .split(" ")
    .map((signature) => Buffer.from(signature))
    .some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected));
}
