import { Gauge, type Registry } from "prom-client";
import type { Readiness } from "../http/health.ts";

/**
 * Registers the metric that tells whether the process is ready. An ingress that checks /health/ready sends no requests
 * to a process that is not ready, so the metrics of requests do not show this state.
 */
export function registerReadinessMetric(registry: Registry, checkReadiness: Readiness): void {
  new Gauge({
    name: "service_ready",
    help: "1 if the process is ready for requests, otherwise 0.",
    registers: [registry],
    async collect() {
      const problems = Object.values(await checkReadiness());
      this.set(problems.every((problem) => problem === null) ? 1 : 0);
    },
  });
}
