/**
 * Signs and posts webhooks with the service's HTTP client, but without a queue. Upper limit for the service's
 * throughput.
 */
import { randomUUID } from "node:crypto";
import { createConnections } from "../../projection/webhooks/send/connections.ts";
import { Exchange } from "../../projection/webhooks/send/send.ts";
import { createSignatureHeaders } from "../../shared/webhooks/delivery-headers.ts";

/** Numbers of endpoints, events, workers and requests in the measurements of throughput. */
export const THROUGHPUT = { endpoints: 40, events: 20_000, appenders: 64, connections: 64, posts: 20_000 };

/** Creates a client that signs and posts bodies. `post` rejects if the response status is not 200. */
function createSignedPoster(url: string) {
  const client = createConnections();
  const destination = { url: new URL(url), addresses: ["127.0.0.1"] as const };
  const secret = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
  return {
    async post(deliveryId: string, body: string) {
      const content = { deliveryId, timestamp: Math.floor(Date.now() / 1_000), body };
      const headers = { "Content-Type": "application/json", ...createSignatureHeaders(content, [secret], "SERVICE") };
      const exchange = new Exchange();
      await exchange.run(
        (useNewConnection) => client.post("bench", destination, headers, useNewConnection),
        body,
        () => undefined,
      );
      if (exchange.statusCode !== 200) throw new Error(`POST ${url}: status ${exchange.statusCode}`);
    },
    close: client.close,
  };
}

function createWebhookBody(eventId: string): string {
  return JSON.stringify({
    id: eventId,
    type: "appointment.created",
    apiVersion: "v1",
    createdAt: new Date().toISOString(),
    environment: "production",
    clinicId: randomUUID(),
    branchId: randomUUID(),
    data: { appointment: { id: randomUUID(), filler: "x".repeat(420) } },
  });
}

/** Signs and posts the same body repeatedly. @returns requests per second */
export async function measureSignedPosts(url: string, count: number): Promise<number> {
  const poster = createSignedPoster(url);
  const body = createWebhookBody(randomUUID());
  const startedAt = performance.now();
  await runConcurrently(THROUGHPUT.connections, count, () => poster.post(randomUUID(), body));
  const rate = count / ((performance.now() - startedAt) / 1_000);
  poster.close();
  return rate;
}

/** Runs a task for each number from 0 to `count` - 1, in concurrent workers. */
export async function runConcurrently(
  workerCount: number,
  count: number,
  runTask: (n: number) => Promise<void>,
): Promise<void> {
  const numbers = Array.from({ length: count }, (_, n) => n).values();
  await Promise.all(
    Array.from({ length: workerCount }, async () => {
      for (const n of numbers) await runTask(n);
    }),
  );
}
