/** `npm start`: runs the whole stack on this machine until Ctrl-C. */
import { once } from "node:events";
import fs from "node:fs";
import { loadSecretFiles } from "../../shared/runtime/config.ts";
import { seedDemoData } from "./demo-data/demo-data.ts";
import { requireReachable } from "./servers/servers.ts";
import { readPorts } from "./setup/ports.ts";
import { createProgress } from "./setup/progress.ts";
import { getLocalRoot, toRelativePath } from "./setup/project.ts";
import { runEntry } from "./setup/setup-error.ts";
import { getPortalIssuer, PORTAL_COOKIE_NAME } from "./stack/environment.ts";
import { type LocalStack, startStack } from "./stack/stack.ts";
import { type DemoAccess, formatReadyMessage, writeStackFile } from "./stack/stack-file.ts";
import type { Component } from "./supervisor/component.ts";

/** Signals within this time count as one signal. Ctrl-C or the death of the bootstrap can cause several signals. */
const REPEATED_SIGNAL_WINDOW_MS = 500;

await runEntry(async () => {
  process.stdout.on("error", () => undefined); // the terminal or the pipe was closed
  const root = getLocalRoot(process.env);
  const shutdown = listenForSignals();
  const { signal } = shutdown;
  const progress = createProgress(console.log, true);
  const startedAt = Date.now();
  console.log(`Starting Clinic Service. Data and logs: ${toRelativePath(root)}`);
  const env = loadSecretFiles(process.env);
  await requireReachable(env);
  const stack = await startStack({
    root,
    ports: readPorts(env),
    env,
    externalUrls: env,
    progress,
    isPostgresEphemeral: false,
    shouldRestart: true,
    signal,
  }).catch((error: unknown) => {
    if (!signal.aborted) throw error;
    console.log("Stopped.");
    process.exit();
  });
  shutdown.components = Object.values(stack.components);
  const { stack: stackFile } = stack.servers.root.paths;
  try {
    const demoAccess = await progress.runStep("demo data", () => addDemoData(stack, signal));
    const content = writeStackFile(stack, demoAccess);
    console.log(formatReadyMessage(content, toRelativePath(root), Date.now() - startedAt));
    if (!signal.aborted) await once(signal, "abort");
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    console.log("Stopping …");
    fs.rmSync(stackFile, { force: true });
    await stack.stop();
  }
  console.log("Stopped.");
  process.exit();
});

function addDemoData({ servers, urls }: LocalStack, signal: AbortSignal): Promise<DemoAccess> {
  const { paths, secrets } = servers.root;
  return seedDemoData({
    eventstoreUrl: servers.eventstoreUrl,
    databaseUrl: servers.databaseUrls.command,
    personalDataKeys: secrets.personalDataKeys,
    portalJwtSecret: secrets.portalJwtSecret,
    portalJwtIssuer: getPortalIssuer(urls),
    portalCookieName: PORTAL_COOKIE_NAME,
    credentialsFile: paths.demo,
    signal,
  });
}

interface Shutdown {
  signal: AbortSignal;
  /** Components to kill at the second signal. */
  components: Component[];
}

/**
 * Listens for signals. The first signal stops the stack gracefully, even while it is still starting. The second signal
 * kills all components.
 */
function listenForSignals(): Shutdown {
  const controller = new AbortController();
  const shutdown: Shutdown = { signal: controller.signal, components: [] };
  let firstSignalAt: number | undefined;
  const onSignal = () => {
    controller.abort();
    firstSignalAt ??= Date.now();
    if (Date.now() - firstSignalAt < REPEATED_SIGNAL_WINDOW_MS) return;
    console.log("Killing the remaining processes …");
    const embeddedComponents = shutdown.components.filter(({ isExternal }) => !isExternal);
    Promise.allSettled(embeddedComponents.map((component) => component.kill())).then(() => process.exit(130));
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, onSignal);
  return shutdown;
}
