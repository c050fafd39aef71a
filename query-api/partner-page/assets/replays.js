import { getTimeZone } from "./clinic.js";
import { confirmAction } from "./confirm.js";
import { getReplayFilters } from "./filters.js";
import { formatCount, formatMinute } from "./format.js";
import { createIdempotencyKey, request, wait } from "./session.js";

/** Waits before the requests for the progress of a replay. Milliseconds. */
const WAITS_MS = [300, 700, 1_000, 2_000, 4_000, 8_000, 15_000];

/** Maximum number of deliveries in a page of the list, and of ids in a replay. */
const PAGE_SIZE = 100;

/** Maximum number of deliveries that are counted before a replay. Each page of the list is one request. */
const MAX_COUNTED = 1_000;

const FINISHED = new Set(["completed", "stopped"]);

/** Queues one delivery again, even if the receiver has already accepted it. */
export async function replayDelivery(endpointId, { id, status }) {
  if (status === "delivered") return requestReplay(endpointId, { deliveryIds: [id] });
  await request("POST", `/webhook-endpoints/${endpointId}/deliveries/${id}/replay`);
}

/** Returns true if the endpoint has a delivery that a replay with the current filters would send again. */
export async function findReplayable(endpointId) {
  return (await listReplayable(endpointId, getReplayFilters(), 1)).ids.length > 0;
}

/**
 * Replays the deliveries that match the filters, by default the failed and skipped deliveries. First asks the user to
 * confirm their number. Waits up to about 30 seconds until they are queued.
 *
 * @param {(text: string) => void} report called with a text about the progress
 * @returns {Promise<boolean>} true if the user confirmed
 */
export async function replayFailedDeliveries({ id: endpointId, url }, report) {
  const filters = getReplayFilters();
  const { statuses, type, appointmentId, from, to } = filters;
  // A replay selects by time and status. For the other filters, the request contains the ids.
  const isByIds = type !== "" || appointmentId !== "";
  const { ids, isComplete } = await listReplayable(endpointId, filters, isByIds ? PAGE_SIZE : MAX_COUNTED);
  const selection = `${statuses.join(" and ")} deliveries`;
  if (ids.length === 0) {
    report(`There are no ${selection} that match the filters.`);
    return false;
  }
  const isConfirmed = await confirmAction({
    title: `Replay ${isComplete || isByIds ? "" : "more than "}${formatCount(ids.length, "delivery", "deliveries")}?`,
    text: [
      `The ${selection} that match the filters are sent to ${url} again, with their former delivery ids.`,
      `Period: from ${formatMinute(from, getTimeZone())} to ${to ? formatMinute(to, getTimeZone()) : "now"}.`,
      ...(isByIds && !isComplete ? ["More deliveries match. Replay again to send them too."] : []),
    ].join(" "),
    accept: "Replay",
  });
  if (!isConfirmed) return false;
  let replay = await requestReplay(endpointId, isByIds ? { deliveryIds: ids } : { since: from, until: to, statuses });
  for (const waitMs of WAITS_MS) {
    report(describeProgress(replay));
    if (FINISHED.has(replay.status)) break;
    await wait(waitMs);
    replay = (await request("GET", `/webhook-endpoints/${endpointId}/replays/${replay.id}`)).replay;
  }
  report(describeProgress(replay));
  return true;
}

/** Lists up to `maxCount` ids of deliveries that match the filters. `isComplete` is false if there are more. */
async function listReplayable(endpointId, { statuses, title: _, ...filters }, maxCount) {
  const ids = [];
  const limit = Math.min(maxCount, PAGE_SIZE);
  for (const status of statuses) {
    for (let cursor; cursor !== null; ) {
      const query = { ...filters, status, limit, cursor };
      const { deliveries, page } = await request("GET", `/webhook-endpoints/${endpointId}/deliveries`, { query });
      ids.push(...deliveries.map(({ id }) => id));
      cursor = page.nextCursor;
      const isMore = cursor !== null || ids.length > maxCount;
      if (ids.length >= maxCount && isMore) return { ids: ids.slice(0, maxCount), isComplete: false };
    }
  }
  return { ids, isComplete: true };
}

async function requestReplay(endpointId, body) {
  const headers = { "Idempotency-Key": createIdempotencyKey() };
  return (await request("POST", `/webhook-endpoints/${endpointId}/replays`, { headers, body })).replay;
}

function describeProgress({ status, replayedCount, notReplayedCount }) {
  const queued = `${formatCount(replayedCount, "delivery", "deliveries")} ${replayedCount === 1 ? "was" : "were"} queued again`;
  const left = notReplayedCount === 0 ? "" : `, ${notReplayedCount} no longer available`;
  const texts = { completed: `${queued}${left}.`, stopped: `The endpoint is no longer active: ${queued}${left}.` };
  return texts[status] ?? `Replaying: ${queued} so far.`;
}
