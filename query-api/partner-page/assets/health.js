import { h } from "./dom.js";
import { isFiltered } from "./filters.js";
import { createTime } from "./times.js";

/** Explanation of each reason for which an endpoint is disabled. */
const DISABLED_REASONS = {
  partner: "Your application disabled it.",
  gone: "The receiver returned 410. Enable it when the receiver accepts events again.",
  no_success: "The receiver failed for five days. Repair the receiver, and then enable the endpoint.",
  operator: "The operator disabled it, and only the operator can enable it.",
};

/** Returns the state of an endpoint: `revoked`, `disabled`, `failing` or `active`. */
export function getHealth({ status, failingSince }) {
  return status === "active" && failingSince ? "failing" : status;
}

/**
 * Returns true if the receiver has returned 410 since the endpoint's latest change. The service then disables the
 * endpoint, which takes a moment.
 */
export function isBeingDisabled({ status, updatedAt }, deliveries) {
  const attempts = deliveries.flatMap((delivery) => delivery.attempts);
  return status === "active" && attempts.some((attempt) => attempt.statusCode === 410 && attempt.startedAt > updatedAt);
}

/**
 * Creates a sentence about the state of an endpoint.
 *
 * @param {object[] | undefined} loaded the endpoint's latest deliveries, newest first; undefined while they are loading
 */
export function createHealthText(endpoint, loaded) {
  const deliveries = loaded ?? [];
  const { disabledReason, failingSince, failedAttempts } = endpoint;
  const isRetried = deliveries.some(({ status }) => status === "pending");
  const texts = {
    revoked: () => ["Revoked. The endpoint receives no more deliveries, and cannot be enabled."],
    disabled: () => ["Disabled. ", DISABLED_REASONS[disabledReason] ?? disabledReason ?? ""],
    failing: () => [
      ...["Failing since ", createTime(failingSince)],
      `: all ${failedAttempts} attempts since then failed, retries included. `,
      isRetried ? "The service retries pending deliveries. " : "",
      "Failed deliveries can be replayed.",
    ],
    active: () => (loaded ? describeDeliveries(loaded) : ["Active."]),
  };
  const health = getHealth(endpoint);
  const color = health === "active" ? rateDeliveries(deliveries) : health;
  return h("p", { class: `health ${color}` }, ...texts[health]());
}

/**
 * Returns `working`, `failing` or `unknown`. A filtered list without a success is `unknown`, because it omits
 * deliveries.
 */
function rateDeliveries(deliveries) {
  if (deliveries.some(({ status }) => status === "delivered")) return "working";
  return !isFiltered() && deliveries.some(({ status }) => status === "failed") ? "failing" : "unknown";
}

function describeDeliveries(deliveries) {
  // A retry can deliver an old event after newer ones.
  const deliveredAt = deliveries.flatMap(({ status, updatedAt }) => (status === "delivered" ? updatedAt : []));
  const latest = deliveredAt.sort().at(-1);
  const where = isFiltered() ? " in the filtered list" : "";
  if (latest) return [`Working. The latest successful delivery${where} was at `, createTime(latest), "."];
  if (deliveries.length === 0) return ["Active. Send a test event to try it."];
  return ["Active, but no listed delivery was successful."];
}
