import { ask } from "./api.js";
import { byId, h } from "./dom.js";
import { shortId, streamParts, timeText } from "./text.js";

/** Maximum number of streams whose deliveries are requested. */
const MAX_STREAMS = 20;

/** Shows the deliveries of the listed events with their attempts. */
export async function showDeliveries(question, events, signal) {
  const panel = byId("panel-deliveries");
  const streams = streamsOf(question, events);
  panel.replaceChildren(h("p", { class: "empty" }, "Loading …"));
  const found = new Map();
  for (const stream of streams.slice(0, MAX_STREAMS)) {
    for (const delivery of (await ask("deliveries", { stream }, signal)).deliveries)
      found.set(delivery.id, delivery);
  }
  const left = streams.length - MAX_STREAMS;
  panel.replaceChildren(
    found.size === 0 ? h("p", { class: "empty" }, "No webhook deliveries for these events.") : "",
    ...[...found.values()].map(card),
    left > 0
      ? h(
          "p",
          { class: "hint" },
          `Deliveries of ${left} more streams are not shown. Narrow the search to see them.`,
        )
      : "",
  );
}

/** Deliveries are found by the stream of the delivered event; for an application, by its endpoints. */
function streamsOf({ kind, id }, events) {
  const categories = kind === "application" ? ["webhookEndpoint"] : ["appointment", "webhookDelivery"];
  const listed = events
    .map(({ stream }) => stream)
    .filter((stream) => categories.includes(streamParts(stream)[0]));
  return [...new Set(kind === "stream" ? [id, ...listed] : listed)];
}

function card(delivery) {
  const { id, type, status, endpointId, createdAt, nextAttemptAt, attempts, revision } = delivery;
  return h(
    "article",
    { class: "delivery", "aria-label": `Delivery ${shortId(id)}` },
    h("h3", {}, type, " ", h("span", { class: `tag status-${status}` }, status)),
    h(
      "p",
      { class: "hint" },
      `${timeText(createdAt)} · of the event at revision ${revision} · to endpoint `,
      h("span", { title: endpointId }, shortId(endpointId)),
      nextAttemptAt ? ` · next attempt ${timeText(nextAttemptAt)}` : "",
    ),
    attempts.length === 0 ? h("p", { class: "empty" }, "No attempt yet.") : attemptTable(id, attempts),
  );
}

function attemptTable(deliveryId, attempts) {
  const head = ["#", "Started", "Duration", "Result", "Response body"].map((title) =>
    h("th", { scope: "col" }, title),
  );
  const rows = attempts.map(({ number, startedAt, durationMs, statusCode, error, answer }) =>
    h(
      "tr",
      {},
      h("td", {}, String(number)),
      h("td", {}, timeText(startedAt)),
      h("td", {}, durationMs === null ? "unknown" : `${durationMs} ms`),
      h("td", {}, [statusCode, error].filter((part) => part !== null).join(", ") || "none"),
      h("td", { class: "said" }, answer ?? ""),
    ),
  );
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": `Attempts of ${shortId(deliveryId)}` },
    h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows)),
  );
}
