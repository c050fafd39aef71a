import { z } from "zod";
import { buildNodeCommand, PROJECT_FOLDER } from "../setup/project.ts";
import { type Component, type ComponentContext, createComponent } from "../supervisor/component.ts";
import type { Environment, ServiceName } from "./environment.ts";

const SERVICES = {
  projection: { name: "projection", entry: "projection/main.ts" },
  command: { name: "command", entry: "command/main.ts" },
  queryApi: { name: "query-api", entry: "query-api/main.ts" },
  audit: { name: "audit", entry: "command/audit/main.ts" },
  gateway: { name: "gateway", entry: "deploy/local/gateway/main.ts" },
} as const;

/** The service's own readiness checks take less time. */
const PROBE_TIMEOUT_MS = 15_000;

/** The start then reports why a service is not ready yet. */
const REPORT_DELAY_MS = 5_000;

/** Prepares the process of a service, but does not start it. `env` must contain PORT. */
export function createServiceComponent(service: ServiceName, env: Environment, context: ComponentContext): Component {
  const { name, entry } = SERVICES[service];
  const prepareProcess = () => ({
    ...buildNodeCommand(entry),
    env,
    cwd: PROJECT_FOLDER,
    isReady: createReadinessProbe(name, `http://127.0.0.1:${env.PORT}/health/ready`, context.log),
    stopTimeoutMs: 12_000,
  });
  return createComponent(name, prepareProcess, context);
}

/** If the service is not ready, the returned function logs the reason. */
function createReadinessProbe(name: string, url: string, log: (line: string) => void): () => Promise<boolean> {
  const startedAt = Date.now();
  let reportedReason = "";
  return async () => {
    const { isReady, reason } = await fetchReadiness(url);
    if (reason !== "" && reason !== reportedReason && Date.now() - startedAt > REPORT_DELAY_MS) {
      reportedReason = reason;
      log(`  … ${name} is not ready: ${reason}`);
    }
    return isReady;
  };
}

/** For each part of the service, `parts` contains null if the part is ready, and otherwise the reason why it is not. */
const readinessSchema = z.object({ parts: z.record(z.string(), z.string().nullable()) });

/** @returns an empty reason if the service is ready or does not respond */
async function fetchReadiness(url: string): Promise<{ isReady: boolean; reason: string }> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
    const body = await response.json();
    if (response.ok) return { isReady: true, reason: "" };
    const reasons = Object.entries(readinessSchema.parse(body).parts).flatMap(([part, problem]) =>
      // The text after the semicolon states the lag. It is omitted, because it changes with each response.
      problem === null ? [] : [`${part}: ${problem.split(";")[0]}`],
    );
    return { isReady: false, reason: reasons.join(", ") };
  } catch {
    return { isReady: false, reason: "" }; // the service does not listen yet, or is stopping
  }
}
