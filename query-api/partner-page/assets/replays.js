import { getTimeZone } from "./clinic.js";
import { confirmAction } from "./confirm.js";
import { getElement } from "./dom.js";
import { getReplayStart } from "./filters.js";
import { formatMinute } from "./format.js";
import { createIdempotencyKey } from "./idempotency-key.js";
import { request, wait } from "./session.js";

/** Waits before the requests for the progress of a replay. Milliseconds. */
const WAITS_MS = [300, 700, 1_000, 2_000, 4_000, 8_000, 15_000];

/** Statuses of deliveries that a replay sends again. */
const REPLAYABLE = ["failed", "skipped"];

const FINISHED = new Set(["completed", "stopped"]);

/** Queues one delivery again, also if the receiver has accepted it. */
export async function replayDelivery(endpointId, { id, status }) {
  if (status === "delivered") return requestReplay(endpointId, { deliveryIds: [id] });
  await request("POST", `/webhook-endpoints/${endpointId}/deliveries/${id}/replay`);
}

export function isReplayable({ status }) {
  return REPLAYABLE.includes(status);
}

/** Returns true if an endpoint has a failed or skipped delivery in the period of the filters. */
export async function findReplayable(endpointId) {
  for (const status of REPLAYABLE) {
    const query = { status, limit: 1, from: getReplayStart() };
    const { deliveries } = await request("GET", `/webhook-endpoints/${endpointId}/deliveries`, { query });
    if (deliveries.length > 0) return true;
  }
  return false;
}

/**
 * Queues the failed and skipped deliveries of an endpoint again that were created since a time, if the user confirms
 * this. Waits until they are queued.
 *
 * @returns {Promise<boolean>} true if the user confirmed
 */
export async function replayFailedDeliveries(endpointId, since) {
  const isConfirmed = await confirmAction({
    title: "Replay failed deliveries?",
    text: `All failed and skipped deliveries since ${formatMinute(since, getTimeZone())} are sent again, with their former delivery ids.`,
    accept: "Replay all",
  });
  if (!isConfirmed) return false;
  let replay = await requestReplay(endpointId, { since });
  for (const waitMs of WAITS_MS) {
    showProgress(replay);
    if (FINISHED.has(replay.status)) break;
    await wait(waitMs);
    replay = (await request("GET", `/webhook-endpoints/${endpointId}/replays/${replay.id}`)).replay;
  }
  showProgress(replay);
  return true;
}

async function requestReplay(endpointId, body) {
  const headers = { "Idempotency-Key": createIdempotencyKey() };
  return (await request("POST", `/webhook-endpoints/${endpointId}/replays`, { headers, body })).replay;
}

function showProgress({ status, replayedCount, notReplayedCount }) {
  const queued = `${replayedCount} ${replayedCount === 1 ? "delivery" : "deliveries"} queued again`;
  const left = notReplayedCount === 0 ? "" : `, ${notReplayedCount} no longer available`;
  const texts = { completed: `${queued}${left}.`, stopped: `The endpoint is no longer active: ${queued}${left}.` };
  getElement("endpoint-status").textContent = texts[status] ?? `Replaying: ${queued} so far.`;
}
