import { findProgram } from "../setup/system-package.ts";

const BY_HAND =
  "install it (Debian: sudo apt-get install nats-server) or set NATS_URL to a NATS server with JetStream";

/**
 * The path of nats-server: installed with the system's package manager where it is missing.
 *
 * @throws {SetupError} one line that says how to get it
 */
export function findNatsServer(log: (line: string) => void): Promise<string> {
  return findProgram({ name: "nats-server", byHand: BY_HAND }, log);
}
