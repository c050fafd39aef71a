import { EventEmitter, once } from "node:events";
import type { RequestListener } from "node:http";
import { text } from "node:stream/consumers";
import { listen } from "../../../shared/http/listen.ts";

export interface ReceivedWebhook {
  headers: Record<string, string>;
  body: string;
  /** From `performance.now()`. */
  receivedAt: number;
}

export type Receiver = Awaited<ReturnType<typeof startReceiver>>;

export async function startReceiver() {
  const inbox: ReceivedWebhook[] = [];
  const arrivalEmitter = new EventEmitter();
  let status = 204;
  const receive: RequestListener = async (request, response) => {
    const receivedAt = performance.now();
    const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
    const body = await text(request).catch(() => undefined); // the sender has disconnected
    if (body === undefined) return;
    inbox.push({ headers, body, receivedAt });
    arrivalEmitter.emit("webhook");
    response.writeHead(status).end();
  };
  const server = await listen(receive, "127.0.0.1", 0, 0);
  return {
    url: `${server.url}/webhooks`,
    setResponseStatus(newStatus: number) {
      status = newStatus;
    },
    /** Waits for the next webhook. @throws {Error} if no webhook arrives in time */
    async waitForWebhook(timeoutMs: number): Promise<ReceivedWebhook> {
      const signal = AbortSignal.timeout(timeoutMs);
      for (let webhook = inbox.shift(); ; webhook = inbox.shift()) {
        if (webhook) return webhook;
        await once(arrivalEmitter, "webhook", { signal }).catch(() => {
          throw new Error(`no webhook arrived within ${timeoutMs} ms`);
        });
      }
    },
    close: server.close,
  };
}
