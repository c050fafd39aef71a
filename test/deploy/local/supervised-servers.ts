// Runs the embedded servers in a process that a test starts and kills: node --import tsx <this file> <root>

import { startServers } from "../../../deploy/local/servers/servers.ts";
import { createProgress } from "../../../deploy/local/setup/progress.ts";
import { findFreePorts } from "../../support/free-ports.ts";

const servers = await startServers({
  root: process.argv[2] ?? "",
  ports: await findFreePorts(),
  externalUrls: {},
  progress: createProgress(() => undefined, false),
  isPostgresEphemeral: true,
});
const pids = Object.values(servers.components).map(({ pid }) => pid);
process.stdout.write(`${JSON.stringify({ pids, url: servers.adminDatabaseUrl })}\n`);
setInterval(() => undefined, 60_000);
