import http from "node:http";
import type { Environment, ServiceName } from "./environment.ts";
import type { Part, PartContext } from "./part.ts";
import { startProcess } from "./process.ts";
import { nodeEntry, PROJECT } from "./project.ts";
import { createPart } from "./supervised-part.ts";

/** Entry and file name of each service. */
const SERVICES = {
  projection: { name: "projection", entry: "projection/main.ts" },
  command: { name: "command", entry: "command/main.ts" },
  queryApi: { name: "query-api", entry: "query-api/main.ts" },
  audit: { name: "audit", entry: "command/audit/main.ts" },
  gateway: { name: "gateway", entry: "deploy/local/gateway.ts" },
} as const;

/** One question whether a service is ready. Longer than the service itself takes to find out. Milliseconds. */
const PROBE_TIMEOUT_MS = 15_000;

/** One service as a process of its own, with the given environment (PORT among it). Not yet started. */
export function servicePart(service: ServiceName, env: Environment, context: PartContext): Part {
  const { name, entry } = SERVICES[service];
  const launch = () =>
    startProcess(
      {
        name,
        ...nodeEntry(entry),
        env,
        cwd: PROJECT,
        ready: () => isReady(`http://127.0.0.1:${env.PORT}/health/ready`),
        logFile: context.paths.log(name),
        stopTimeoutMs: 12_000,
      },
      context.pids,
    );
  return createPart({ name, launch }, context);
}

function isReady(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const request = http.get(url, { timeout: PROBE_TIMEOUT_MS, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    request.on("timeout", () => request.destroy());
    request.on("error", () => resolve(false));
  });
}
