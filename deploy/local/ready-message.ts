import path from "node:path";
import { parseConnectionString } from "../../shared/postgres/connection-string.ts";
import { PROJECT_FOLDER } from "./setup/project.ts";

/** Data of the message that `npm start` prints when the stack is ready. */
export interface ReadyStack {
  /** URL of the gateway. */
  gatewayUrl: string;
  eventstoreUrl: string;
  natsUrl: string;
  databaseUrl: string;
  logFiles: string;
  stackFile: string;
  auditorCredential: string;
}

/** Formats the message that `npm start` prints when the stack is ready. Passwords of external servers are omitted. */
export function formatReadyMessage(stack: ReadyStack, durationMs: number): string {
  const { gatewayUrl, eventstoreUrl, natsUrl, databaseUrl, logFiles, stackFile, auditorCredential } = stack;
  const { hosts, path: databasePath } = parseConnectionString(databaseUrl);
  return `
Clinic Service is ready (${(durationMs / 1000).toFixed(1)} s). Press Ctrl-C to stop.
  portal API    ${gatewayUrl}/api/v1
  partner API   ${gatewayUrl}/sandbox/v1  ${gatewayUrl}/production/v1
  API reference ${gatewayUrl}/docs
  partner page  ${gatewayUrl}/partner
  audit page    ${gatewayUrl}/audit  (credential: ${auditorCredential})
  event log     ${removeCredentials(eventstoreUrl)}
  Postgres      ${hosts.join(",")}${databasePath}
  NATS          ${removeCredentials(natsUrl)}
  logs          ${toRelativePath(logFiles)}
  all details   ${toRelativePath(stackFile)} (URLs, demo users, applications and auditor)

Try in another terminal:
  npm run demo                    follow an appointment: create, read, webhook, replay
  npm run projection -- status    progress of the read models
  npm run clinic -- --help        commands for operators
README.md has example requests for staff, partners and auditors.
`;
}

function removeCredentials(url: string): string {
  return url.replace(/\/\/.*@/s, "//");
}

/** Returns the path relative to the project's folder if the file is in it. */
export function toRelativePath(file: string): string {
  const relativePath = path.relative(PROJECT_FOLDER, file);
  return relativePath.startsWith("..") ? file : relativePath;
}
