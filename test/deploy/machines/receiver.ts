/** Runs the partner's webhook receiver in its network namespace. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { RECEIVER_NAME, RECEIVER_NAMESPACE } from "./network.ts";

export interface Receiver {
  /** Arrival time of the first `appointment.created` webhook, by appointment id. Milliseconds since 1970. */
  arrivals: Map<string, number>;
  close(): void;
}

const program = fileURLToPath(new URL("receiver-process.ts", import.meta.url));

/** @param folder folder with the certificates */
export async function startReceiver(folder: string): Promise<Receiver> {
  const arrivals: Receiver["arrivals"] = new Map();
  const certificate = ["crt", "key"].map((kind) => join(folder, `${RECEIVER_NAME}.${kind}`));
  const node = [process.execPath, ...process.execArgv, program, ...certificate];
  const child = spawn("ip", ["netns", "exec", RECEIVER_NAMESPACE, ...node], { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface(child.stdout);
  const exited = once(child, "exit").then(() => {
    throw new Error("the receiver has stopped");
  });
  await Promise.race([once(lines, "line"), exited]);
  exited.catch(() => undefined);
  lines.on("line", (id) => {
    if (!arrivals.has(id)) arrivals.set(id, Date.now());
  });
  return { arrivals, close: () => child.kill() };
}
