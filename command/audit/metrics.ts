import type pg from "pg";
import { Counter, type Registry } from "prom-client";
import { registerPoolMetrics } from "../../shared/metrics/pool-metrics.ts";
import { createRegistry } from "../../shared/metrics/registry.ts";
import { PUBLICATION_OUTCOMES, type PublicationOutcome } from "./tree/publisher.ts";

/** Registers the metrics of the audit service, except those of requests and of the event log. */
export function createMetrics(pool: pg.Pool): Registry {
  const registry = createRegistry();
  registerPoolMetrics(registry, [pool]);
  return registry;
}

/** Registers the metric of tree heads. Returns the function that counts an outcome. */
export function registerTreeHeadMetric(registry: Registry): (outcome: PublicationOutcome) => void {
  const counter = new Counter({
    name: "audit_tree_head_publications_total",
    help: "Attempts of this process to publish a tree head, by outcome: published, unchanged (no new events) or failed.",
    labelNames: ["outcome"] as const,
    registers: [registry],
  });
  for (const outcome of PUBLICATION_OUTCOMES) counter.inc({ outcome }, 0);
  return (outcome) => counter.inc({ outcome });
}
