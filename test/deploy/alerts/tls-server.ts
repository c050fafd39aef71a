/** A nats-server with a certificate of a private authority, for the alert about expiring certificates. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { findNatsServer, readGreeting } from "../../../deploy/local/servers/nats.ts";
import { withDeathSignal } from "../../../deploy/local/setup/processes.mjs";
import { eventually } from "../../support/eventually.ts";

export const TLS_HOST = "localhost";
const SECRETS_SCRIPT = fileURLToPath(new URL("../../../deploy/container/create-secrets.sh", import.meta.url));

/** Creates a certificate authority and the certificate `localhost.crt` in a new folder. */
export function createCertificates(folder: string): void {
  execFileSync(SECRETS_SCRIPT, [folder, TLS_HOST], { stdio: "pipe" });
}

/** Starts a nats-server with the certificate `server.crt` in the folder. @returns its process */
export async function startTlsServer(folder: string, port: number): Promise<ChildProcess> {
  const file = (name: string) => JSON.stringify(path.join(folder, name));
  const tls = `tls { cert_file: ${file("server.crt")}, key_file: ${file(`${TLS_HOST}.key`)} }`;
  writeFileSync(path.join(folder, "nats.conf"), `listen: "127.0.0.1:${port}"\n${tls}\n`);
  const program = await findNatsServer(() => undefined);
  const args = ["-c", path.join(folder, "nats.conf"), "-l", path.join(folder, "nats.log")];
  const server = spawn(...withDeathSignal("SIGKILL", program, args), { stdio: "ignore" });
  await eventually("the nats-server", () => readGreeting(port));
  return server;
}
