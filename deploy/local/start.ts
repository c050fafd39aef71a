/** `npm start`: runs the whole stack on this machine until Ctrl-C. */
import { once } from "node:events";
import { LogOutput } from "../../shared/runtime/log-output.ts";
import { seedDemoData } from "./demo-data/demo-data.ts";
import { formatReadyMessage, type ReadyStack, toRelativePath } from "./ready-message.ts";
import { requireReachable, requireValidUrls } from "./servers/external-servers.ts";
import { loadSecrets } from "./setup/load-secrets.ts";
import { createProgress } from "./setup/progress.ts";
import { getLocalRoot } from "./setup/project.ts";
import { createSavedFile } from "./setup/saved-file.ts";
import { runEntry } from "./setup/setup-error.ts";
import { getPortalIssuer, PORTAL_COOKIE_NAME } from "./stack/environment.ts";
import { type Stack, startStack } from "./stack/stack.ts";
import { type DemoAccess, writeStackFile } from "./stack/stack-file.ts";
import type { Component } from "./supervisor/component.ts";

/**
 * Standard output. If it is redirected to a file on a full disk, lines are lost. The number of lost lines is reported
 * later.
 */
const output = new LogOutput(1, (lostLineCount, lostSince) =>
  print(
    `${lostLineCount} lines of output were lost since ${lostSince.toISOString()} because they could not be written.`,
  ),
);
const print = (text: string) => output.write(`${text}\n`);

/**
 * Signals within this many milliseconds of the first signal count as one. Ctrl-C can cause several signals, and so can
 * the death of the bootstrap.
 */
const REPEATED_SIGNAL_WINDOW_MS = 500;

await runEntry(async () => {
  const root = getLocalRoot(process.env);
  const shutdown = listenForSignals();
  const progress = createProgress(print, true);
  const startedAt = Date.now();
  print(`Starting Clinic Service. Data and logs: ${toRelativePath(root)}`);
  const env = loadSecrets(process.env);
  requireValidUrls(env);
  await requireReachable(env);
  const stack = await startStack({
    root,
    portMode: "fixed",
    env,
    externalUrls: env,
    progress,
    isPostgresEphemeral: false,
    shouldRestart: true,
    signal: shutdown.signal,
  }).catch((error: unknown) => {
    if (!shutdown.signal.aborted) throw error;
    print("Stopped.");
    process.exit();
  });
  shutdown.components = Object.values(stack.components);
  const stackFile = createSavedFile(stack.servers.root.paths.stack, progress.log);
  process.on("exit", stackFile.remove);
  try {
    const demoAccess = await progress
      .runStep("demo data", () => addDemoData(stack, progress.log, shutdown.signal))
      .catch((error: unknown) => {
        if (!shutdown.signal.aborted) throw error;
      });
    if (demoAccess && !shutdown.signal.aborted) {
      writeStackFile(stack, demoAccess, stackFile);
      print(formatReadyMessage(describeReadyStack(stack, demoAccess), Date.now() - startedAt));
      await once(shutdown.signal, "abort");
    }
    print("Stopping …");
  } finally {
    stackFile.remove();
    await stack.stop();
  }
  print("Stopped.");
  process.exit();
});

function addDemoData({ servers, urls }: Stack, log: (line: string) => void, signal: AbortSignal): Promise<DemoAccess> {
  const { paths, secrets } = servers.root;
  return seedDemoData({
    eventstoreUrl: servers.eventstoreUrl,
    databaseUrl: servers.databaseUrls.command,
    personalDataKeys: secrets.personalDataKeys,
    portalJwtSecret: secrets.portalJwtSecret,
    portalJwtIssuer: getPortalIssuer(urls),
    portalCookieName: PORTAL_COOKIE_NAME,
    credentialsFile: paths.demo,
    log,
    signal,
  });
}

interface Shutdown {
  /** Aborted at the first signal. */
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
    print("Killing the remaining processes …");
    const embeddedComponents = shutdown.components.filter(({ isExternal }) => !isExternal);
    Promise.allSettled(embeddedComponents.map((component) => component.kill())).then(() => process.exit(130));
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, onSignal);
  return shutdown;
}

function describeReadyStack({ urls, servers }: Stack, { auditor }: DemoAccess): ReadyStack {
  const { eventstoreUrl, natsUrl, databaseUrls, root } = servers;
  return {
    ...{ gatewayUrl: urls.gateway, eventstoreUrl, natsUrl, databaseUrl: databaseUrls.projection },
    ...{ logFiles: root.paths.log("*"), stackFile: root.paths.stack, auditorCredential: auditor.credential },
  };
}
