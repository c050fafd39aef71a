import { announce } from "./actions.js";
import { fetchJson } from "./api.js";
import { createAttempts } from "./attempts.js";
import { createTime } from "./clinics.js";
import { createEmptyText, createHint, createStatusTag, getElement, h } from "./dom.js";
import { formatCount, shortenId } from "./format.js";
import { createNamedId } from "./names.js";
import { splitStreamName } from "./text.js";

/** Maximum number of streams in a request. Each request is a recorded access. */
const MAX_STREAMS = 20;

/** Shows the webhook deliveries of the listed events, each with its attempts. */
export async function showDeliveries(search, events, signal) {
  const panel = getElement("panel-deliveries");
  const streams = listStreams(search, events);
  const stream = streams.slice(0, MAX_STREAMS).join(",");
  const { deliveries } = stream ? await fetchJson("deliveries", { stream }, signal) : { deliveries: [] };
  announce(formatCount(deliveries.length, "webhook delivery", "webhook deliveries"));
  const left = streams.length - MAX_STREAMS;
  const hint = `Deliveries of ${left} more streams are not shown. Narrow the search to see them.`;
  panel.replaceChildren(
    deliveries.length === 0 ? createEmptyText("No webhook deliveries for these events.") : "",
    ...deliveries.map(createDelivery),
    left > 0 ? createHint(hint) : "",
  );
}

/**
 * Lists the streams whose deliveries are requested: for an application, the listed endpoints; for other searches, the
 * listed appointments. Includes the stream of a search by stream.
 */
function listStreams({ kind, id }, events) {
  const categories = kind === "application" ? ["webhookEndpoint"] : ["appointment"];
  const listed = events.map(({ stream }) => stream).filter((stream) => categories.includes(splitStreamName(stream)[0]));
  return [...new Set(kind === "stream" ? [id, ...listed] : listed)];
}

function createDelivery(delivery) {
  const { id, type, status, endpointId, applicationId, clinicId, createdAt, nextAttemptAt, position } = delivery;
  return h(
    "article",
    { class: "delivery", "aria-label": `Delivery ${shortenId(id)}` },
    h("h3", {}, type, " ", createStatusTag(status)),
    createHint(
      createTime(createdAt, clinicId),
      ` · for the event at position ${position} · to application `,
      createNamedId(applicationId),
      " at endpoint ",
      createNamedId(endpointId),
      ...(nextAttemptAt ? [" · next attempt ", createTime(nextAttemptAt, clinicId)] : []),
    ),
    createAttempts(delivery, (instant) => createTime(instant, clinicId)),
  );
}
