import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Receipt } from "./webhook-sink.ts";

/** The running process of `webhook-sink.ts`. */
export interface WebhookSink {
  pid: number;
  url: string;
  /** URL of the same receiver at another origin. */
  otherUrl: string;
  stop(): void;
}

/** Starts the receiver in its own process. */
export async function startWebhookSink(onReceipt: (receipt: Receipt) => void): Promise<WebhookSink> {
  const sink = fork(fileURLToPath(new URL("./webhook-sink.ts", import.meta.url)), { execArgv: ["--import=tsx"] });
  const [{ ports }] = (await once(sink, "message")) as [{ ports: [number, number] }];
  sink.on("message", (message: { receipts: Receipt[] }) => message.receipts.forEach(onReceipt));
  return {
    pid: sink.pid as number,
    url: `http://127.0.0.1:${ports[0]}`,
    otherUrl: `http://127.0.0.1:${ports[1]}`,
    stop: () => sink.disconnect(),
  };
}
