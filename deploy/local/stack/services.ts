import http from "node:http";
import { z } from "zod";
import { buildNodeCommand, PROJECT } from "../setup/project.ts";
import type { Component, ComponentContext } from "../supervisor/component.ts";
import { openLogFile } from "../supervisor/log-file.ts";
import { startProcess } from "../supervisor/process.ts";
import { createComponent } from "../supervisor/supervised-process.ts";
import type { Environment, ServiceName } from "./environment.ts";

/** Entry and log name of each service. */
const SERVICES = {
  projection: { name: "projection", entry: "projection/main.ts" },
  command: { name: "command", entry: "command/main.ts" },
  queryApi: { name: "query-api", entry: "query-api/main.ts" },
  audit: { name: "audit", entry: "command/audit/main.ts" },
  gateway: { name: "gateway", entry: "deploy/local/gateway/main.ts" },
} as const;

/** Time limit of one readiness probe, longer than the service's own checks. Milliseconds. */
const PROBE_TIMEOUT_MS = 15_000;

/** If a service is not ready after this time, its reason is reported, and again if the reason changes. Milliseconds. */
const REPORT_AFTER_MS = 5_000;

/** Prepares the process of a service. Does not start it. `env` must contain PORT. */
export function createServiceComponent(
  service: ServiceName,
  env: Environment,
  context: ComponentContext,
): Component {
  const { name, entry } = SERVICES[service];
  const output = openLogFile(context.paths.log(name));
  const launch = () =>
    startProcess(
      {
        name,
        ...buildNodeCommand(entry),
        env,
        cwd: PROJECT,
        ready: createReadinessProbe(name, `http://127.0.0.1:${env.PORT}/health/ready`, context.log),
        log: output,
        stopTimeoutMs: 12_000,
      },
      context.pids,
    );
  return createComponent({ name, launch }, context);
}

/** Returns a probe that resolves with true if the service is ready, and reports why it is not. */
function createReadinessProbe(
  name: string,
  url: string,
  log: (line: string) => void,
): () => Promise<boolean> {
  const startedAt = Date.now();
  let reported = "";
  return async () => {
    const { ready, reason } = await fetchReadiness(url);
    if (reason !== "" && reason !== reported && Date.now() - startedAt > REPORT_AFTER_MS) {
      reported = reason;
      log(`  … ${name} is not ready: ${reason}`);
    }
    return ready;
  };
}

/** Body of /health/ready: for each part, null or the reason why it is not ready. */
const readinessSchema = z.object({ parts: z.record(z.string(), z.string().nullable()) });

/** @returns an empty reason if the service is ready or does not answer */
async function fetchReadiness(url: string): Promise<{ ready: boolean; reason: string }> {
  try {
    const { statusCode, text } = await get(url);
    if (statusCode === 200) return { ready: true, reason: "" };
    const { parts } = readinessSchema.parse(JSON.parse(text));
    const reasons = Object.entries(parts).flatMap(([part, problem]) =>
      // The lag after the semicolon changes with each answer.
      problem === null ? [] : [`${part}: ${problem.split(";")[0]}`],
    );
    return { ready: false, reason: reasons.join(", ") };
  } catch {
    // The service does not listen yet, or is stopping. The next probe decides.
    return { ready: false, reason: "" };
  }
}

function get(url: string): Promise<{ statusCode: number | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    const request = http.get(url, { timeout: PROBE_TIMEOUT_MS, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () =>
        resolve({ statusCode: response.statusCode, text: Buffer.concat(chunks).toString() }),
      );
      response.on("error", reject);
    });
    request.on("timeout", () => request.destroy());
    request.on("error", reject);
  });
}
