import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { SendResult } from "../../../projection/webhooks/send/send.ts";

/** URL of an attempt, and where it really connects to: an egress proxy, or a port on loopback. */
export type TrustedAttempt = { url: string } & ({ proxyUrl: string } | { port: number });

/**
 * Makes attempts in a separate process that trusts additional certificates. Makes each attempt twice.
 *
 * @param certFile path of a PEM file with the certificates
 * @returns status or error of each attempt
 */
export async function runTrustedAttempts(
  attempts: readonly TrustedAttempt[],
  certFile: string,
): Promise<(number | string | null)[]> {
  const scriptPath = fileURLToPath(new URL("trusted-attempts.ts", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, ["--import=tsx", scriptPath], {
    env: { ...process.env, NODE_EXTRA_CA_CERTS: certFile, ATTEMPTS: JSON.stringify(attempts) },
  });
  return (JSON.parse(stdout) as SendResult[]).map(({ statusCode, error }) => statusCode ?? error);
}
