import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A webhook as the partner's server received it. */
export interface ReceivedWebhook {
  headers: Record<string, string>;
  body: string;
  /** Time of arrival from `performance.now()`, in milliseconds. */
  at: number;
}

/** The partner's webhook server in the demo. */
export interface Receiver {
  url: string;
  /** Sets the status of all later answers. */
  respondWith(status: number): void;
  /** Waits for the next webhook. @throws if none arrives in time */
  next(timeoutMs: number): Promise<ReceivedWebhook>;
  close(): Promise<void>;
}

/** Starts the partner's webhook server on a free loopback port. */
export async function startReceiver(): Promise<Receiver> {
  const inbox: ReceivedWebhook[] = [];
  const waiting: ((webhook: ReceivedWebhook) => void)[] = [];
  let status = 204;
  const server = createServer(async (request, response) => {
    const at = performance.now();
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const headers = Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
    );
    const webhook = { headers, body: Buffer.concat(chunks).toString(), at };
    const taker = waiting.shift();
    if (taker) taker(webhook);
    else inbox.push(webhook);
    response.writeHead(status).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks`,
    respondWith(next) {
      status = next;
    },
    async next(timeoutMs) {
      const ready = inbox.shift();
      if (ready) return ready;
      return await new Promise<ReceivedWebhook>((resolve, reject) => {
        const take = (webhook: ReceivedWebhook) => {
          clearTimeout(timer);
          resolve(webhook);
        };
        const timer = setTimeout(() => {
          waiting.splice(waiting.indexOf(take), 1);
          reject(new Error(`no webhook arrived within ${timeoutMs} ms`));
        }, timeoutMs);
        waiting.push(take);
      });
    },
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}
