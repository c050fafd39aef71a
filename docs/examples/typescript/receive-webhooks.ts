// Receives webhooks, verifies their signatures and prints the events.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";
import { buffer } from "node:stream/consumers";

const { WEBHOOK_SECRET } = process.env;
if (!WEBHOOK_SECRET) throw new Error("WEBHOOK_SECRET is not set.");
const key = Buffer.from(WEBHOOK_SECRET.replace(/^whsec_/, ""), "base64");
const MAX_AGE_SECONDS = 300;

function isAuthentic(headers: IncomingHttpHeaders, body: Buffer): boolean {
  const { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures } = headers;
  const ageSeconds = Math.abs(Date.now() / 1000 - Number(timestamp));
  if (!(ageSeconds <= MAX_AGE_SECONDS)) return false;
  const hmac = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body);
  const expected = Buffer.from(`v1,${hmac.digest("base64")}`);
  return String(signatures)
    .split(" ")
    .map((signature) => Buffer.from(signature))
    .some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected));
}

// In production, store the ids in a table with a unique key.
const handledIds = new Set<string>();

const server = createServer(async (request, response) => {
  const body = await buffer(request).catch(() => undefined); // the sender can abort the request
  if (!body || !isAuthentic(request.headers, body)) return response.writeHead(400).end();
  const deliveryId = String(request.headers["webhook-id"]);
  if (!handledIds.has(deliveryId)) {
    handledIds.add(deliveryId);
    const event = JSON.parse(body.toString());
    console.log(event.type, event.id);
  }
  return response.writeHead(204).end();
});
server.listen(Number(process.env.PORT ?? 9000), "127.0.0.1");
