import { Counter, type Registry } from "prom-client";
import type { RateLimitEvents } from "../rate-limit/limiter.ts";

/** Limits that {@link registerRateLimitMetrics} reports even before the first refusal: the first words of their keys. */
const LIMITS = ["installation", "address", "refused", "reset", "token"];

/** Registers the metrics of a rate limiter, and returns the functions that update them. */
export function registerRateLimitMetrics(registry: Registry): RateLimitEvents {
  const registers = [registry];
  const refusals = new Counter({
    name: "rate_limit_refusals_total",
    help: "Requests that exceeded a rate limit, by limit.",
    labelNames: ["limit"] as const,
    registers,
  });
  for (const limit of LIMITS) refusals.inc({ limit }, 0);
  const fallbacks = new Counter({
    name: "rate_limit_fallbacks_total",
    help: "Requests that were counted only in this process, because Postgres was unavailable.",
    registers,
  });
  return {
    onRefusal: (limit) => refusals.inc({ limit }),
    onFallback: () => fallbacks.inc(),
  };
}
