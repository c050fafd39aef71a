import { EventEmitter, once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface ReceivedWebhook {
  headers: Record<string, string>;
  body: string;
  /** From `performance.now()`. */
  receivedAt: number;
}

export interface Receiver {
  url: string;
  setResponseStatus(status: number): void;
  /** Waits for the next webhook. @throws {Error} if no webhook arrives in time */
  waitForWebhook(timeoutMs: number): Promise<ReceivedWebhook>;
  close(): Promise<void>;
}

export async function startReceiver(): Promise<Receiver> {
  const inbox: ReceivedWebhook[] = [];
  const arrivalEmitter = new EventEmitter();
  let status = 204;
  const server = createServer(async (request, response) => {
    const receivedAt = performance.now();
    const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
    inbox.push({ headers, body: await text(request), receivedAt });
    arrivalEmitter.emit("webhook");
    response.writeHead(status).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks`,
    setResponseStatus(newStatus) {
      status = newStatus;
    },
    async waitForWebhook(timeoutMs) {
      const signal = AbortSignal.timeout(timeoutMs);
      for (let webhook = inbox.shift(); ; webhook = inbox.shift()) {
        if (webhook) return webhook;
        await once(arrivalEmitter, "webhook", { signal }).catch(() => {
          throw new Error(`no webhook arrived within ${timeoutMs} ms`);
        });
      }
    },
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}
