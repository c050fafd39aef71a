// Run as a process of its own by the tests that kill it: node --import tsx <this file> <root>
import { freePorts } from "../../../deploy/local/ports.ts";
import { lineProgress } from "../../../deploy/local/progress.ts";
import { startServers } from "../../../deploy/local/servers.ts";

const servers = await startServers({
  root: process.argv[2] ?? "",
  ports: await freePorts(),
  given: {},
  progress: lineProgress(() => undefined, false),
  syncNewData: false,
});
const pids = Object.values(servers.parts).map(({ pid }) => pid);
process.stdout.write(`${JSON.stringify({ pids, url: servers.adminDatabaseUrl })}\n`);
setInterval(() => undefined, 60_000);
