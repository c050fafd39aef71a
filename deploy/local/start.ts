/** `npm start`: everything on this machine, until Ctrl-C. */
import { once } from "node:events";
import path from "node:path";
import { LogOutput } from "../../shared/runtime/log-output.ts";
import { type DemoAccess, seedDemoData } from "./demo-data/demo-data.ts";
import { requireReachable, requireValidUrls } from "./servers/external-servers.ts";
import { lineProgress } from "./setup/progress.ts";
import { localRoot, PROJECT } from "./setup/project.ts";
import { savedFile } from "./setup/saved-file.ts";
import { runEntry } from "./setup/setup-error.ts";
import { PORTAL_COOKIE_NAME, portalIssuer } from "./stack/environment.ts";
import { type Stack, startStack } from "./stack/stack.ts";
import { writeStackFile } from "./stack/stack-file.ts";
import type { Component } from "./supervisor/component.ts";

/** What the terminal shows, which may be a file on a full disk. */
const output = new LogOutput(1, (lost, since) =>
  print(`${lost} lines were lost since ${since.toISOString()}: they could not be written`),
);
const print = (text: string) => output.write(`${text}\n`);

/** The death of the bootstrap, and a key press too, may be told several times over. Milliseconds. */
const SAME_SIGNAL_MS = 500;

await runEntry(async () => {
  const root = localRoot(process.env);
  const shutdown = shutDownOnSignal();
  const progress = lineProgress(print, true);
  const startedAt = Date.now();
  print(`Starting Clinic Service in ${relative(root)}`);
  requireValidUrls(process.env);
  await requireReachable(process.env);
  const stack = await startStack({
    root,
    ports: "fixed",
    env: process.env,
    external: process.env,
    progress,
    syncNewData: true,
    restart: true,
    signal: shutdown.signal,
  }).catch((error: unknown) => {
    if (!shutdown.signal.aborted) throw error;
    print("Stopped");
    process.exit();
  });
  shutdown.components = Object.values(stack.components);
  const stackFile = savedFile(stack.servers.root.paths.stack, progress.line);
  process.on("exit", stackFile.remove);
  try {
    const demo = await progress
      .step("demo data", () => addDemoData(stack, progress.line, shutdown.signal))
      .catch((error: unknown) => {
        if (!shutdown.signal.aborted) throw error;
      });
    if (demo && !shutdown.signal.aborted) {
      writeStackFile(stack, demo, stackFile);
      announce(stack, demo, Date.now() - startedAt);
      await once(shutdown.signal, "abort");
    }
    print("Stopping");
  } finally {
    stackFile.remove();
    await stack.stop();
  }
  print("Stopped");
  process.exit();
});

function addDemoData(
  { servers, urls }: Stack,
  log: (line: string) => void,
  signal: AbortSignal,
): Promise<DemoAccess> {
  const { paths, secrets } = servers.root;
  return seedDemoData({
    eventstoreUrl: servers.eventstoreUrl,
    portalJwtSecret: secrets.portalJwtSecret,
    portalJwtIssuer: portalIssuer(urls),
    portalCookieName: PORTAL_COOKIE_NAME,
    credentialsFile: paths.demo,
    log,
    signal,
  });
}

interface Shutdown {
  /** Aborted by the first signal. */
  signal: AbortSignal;
  /** Killed by a second signal. */
  components: Component[];
}

/** The first signal ends the run in order, also during the start; a second one kills. */
function shutDownOnSignal(): Shutdown {
  const controller = new AbortController();
  const shutdown: Shutdown = { signal: controller.signal, components: [] };
  let firstAt: number | undefined;
  const onSignal = () => {
    controller.abort();
    firstAt ??= Date.now();
    if (Date.now() - firstAt < SAME_SIGNAL_MS) return;
    print("Killing what still runs");
    const ours = shutdown.components.filter((component) => !component.external);
    Promise.allSettled(ours.map((component) => component.kill9())).then(() => process.exit(130));
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, onSignal);
  return shutdown;
}

function announce(stack: Stack, demo: DemoAccess, tookMs: number): void {
  const { urls, servers } = stack;
  const database = new URL(servers.databaseUrls.projection);
  print(`
Clinic Service runs (${(tookMs / 1000).toFixed(1)} s). Ctrl-C stops it.
  portal API    ${urls.gateway}/api/v1
  partner API   ${urls.gateway}/sandbox/v1  ${urls.gateway}/production/v1
  API reference ${urls.gateway}/docs
  audit         ${urls.gateway}/audit  sign in with ${demo.auditor.credential}
  event log     ${servers.eventstoreUrl}
  Postgres      ${database.host}${database.pathname}
  NATS          ${servers.natsUrl}
  logs          ${relative(servers.root.paths.log("*"))}
  everything    ${relative(servers.root.paths.stack)} (URLs, demo users, demo applications, demo auditor)

Try, in another terminal:
  npm run demo                    an appointment's way: created, read, told by webhook, replayed
  npm run projection -- status    how far the read models are
  npm run clinic -- --help        what the operator can do
README.md has requests to make as staff, as a partner and as an auditor.
`);
}

function relative(file: string): string {
  const inside = path.relative(PROJECT, file);
  return inside.startsWith("..") ? file : inside;
}
