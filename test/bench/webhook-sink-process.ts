import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Receipt, SampledRequest } from "./webhook-sink.ts";

export interface WebhookSink {
  pid: number;
  url: string;
  /** URL of the same receiver with another port, so that connections are not shared with `url`. */
  otherUrl: string;
  stop(): void;
}

/**
 * Starts the receiver of webhooks in its own process.
 *
 * @param onSample receives every hundredth request completely
 */
export async function startWebhookSink(
  onReceipt: (receipt: Receipt) => void,
  onSample: (sample: SampledRequest) => void = () => undefined,
): Promise<WebhookSink> {
  const sink = fork(fileURLToPath(new URL("./webhook-sink.ts", import.meta.url)), { execArgv: ["--import=tsx"] });
  const [{ ports }] = (await once(sink, "message")) as [{ ports: [number, number] }];
  sink.on("message", ({ receipts, samples }: { receipts: Receipt[]; samples: SampledRequest[] }) => {
    for (const receipt of receipts) onReceipt(receipt);
    for (const sample of samples) onSample(sample);
  });
  return {
    pid: sink.pid as number,
    url: `http://127.0.0.1:${ports[0]}`,
    otherUrl: `http://127.0.0.1:${ports[1]}`,
    stop: () => sink.disconnect(),
  };
}
