import { runAction } from "./actions.js";
import { createAttempts } from "./attempts.js";
import {
  createButton,
  createDocLink,
  createEmptyText,
  createFactList,
  createHint,
  createId,
  createStatusTag,
  createText,
  h,
} from "./dom.js";
import { formatCount, shortenId } from "./format.js";
import { request } from "./session.js";
import { createAge, createTime } from "./times.js";

/** Labels of the button that sends a delivery again, by status. Pending and cancelled deliveries have no button. */
const REPLAY_LABELS = { failed: "Replay", skipped: "Replay", delivered: "Send again" };

/** Titles of the columns in the summary of a delivery. */
export const COLUMN_TITLES = ["Status", "Response", "Event", "Appointment", "Attempts", "Age"];

/** Creates the element of a delivery with its attempts. When the user opens it, loads the request of the delivery. */
export function createDelivery(delivery, endpoint, onReplay) {
  const { id, eventId, appointmentId, createdAt, nextAttemptAt } = delivery;
  const requestElement = h("div", {}, createEmptyText("Loading the request …"));
  const details = h(
    "details",
    { class: "delivery", "data-id": id },
    createSummary(delivery),
    createReplayButton(delivery, endpoint, onReplay),
    h("h4", {}, "Attempts"),
    createAttempts(delivery, createTime),
    h("h4", {}, "Request"),
    createFactList([
      ["Delivery id", createId(id)],
      ["Event id", createId(eventId)],
      ...(appointmentId ? [["Appointment", createId(appointmentId)]] : []),
      ["Created", createTime(createdAt)],
      ...(nextAttemptAt ? [["Next attempt", createTime(nextAttemptAt)]] : []),
    ]),
    requestElement,
  );
  details.addEventListener("toggle", () => {
    if (details.open) showRequest(endpoint.id, id, requestElement);
  });
  return details;
}

/** Creates the summary row of a delivery, with the columns {@link COLUMN_TITLES}. */
function createSummary({ type, status, appointmentId, attempts, createdAt }) {
  return h(
    "summary",
    { class: "columns" },
    createStatusTag(status),
    h("span", { class: "code" }, describeResponse(attempts.at(-1))),
    // A type is wider than its column on a narrow phone, and breaks only after the dot.
    h("span", { class: "what" }, ...type.split(/(?<=\.)/).flatMap((part) => [part, h("wbr")])),
    createId(appointmentId ? shortenId(appointmentId) : "–", { title: appointmentId ?? "" }),
    h("span", {}, formatCount(attempts.length, "attempt")),
    createAge(createdAt),
  );
}

function describeResponse(attempt) {
  if (!attempt) return "–";
  return String(attempt.statusCode ?? attempt.error?.replaceAll("_", " ") ?? "…");
}

/** Creates the button that replays a delivery. If the endpoint is disabled, creates a hint to enable it instead. */
function createReplayButton(delivery, endpoint, onReplay) {
  const label = REPLAY_LABELS[delivery.status];
  if (label === undefined) return "";
  if (endpoint.status === "disabled") return createEmptyText("Enable the endpoint to replay this delivery.");
  if (endpoint.status === "revoked") return "";
  const onclick = ({ currentTarget: button }) =>
    runAction({ button, alertId: "deliveries-alert" }, () => onReplay(delivery));
  return h("div", { class: "buttons" }, createButton(label, { onclick }));
}

async function showRequest(endpointId, deliveryId, element) {
  try {
    const { delivery } = await request("GET", `/webhook-endpoints/${endpointId}/deliveries/${deliveryId}`);
    element.replaceChildren(...createRequest(delivery.request, deliveryId));
  } catch (error) {
    if (error.name === "AbortError") return;
    element.replaceChildren(h("p", { class: "alert" }, error.message, " ", createDocLink(error.docUrl)));
  }
}

function createRequest({ body, headers, customHeaderNames }, deliveryId) {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const customLines = customHeaderNames.map((name) => `${name}: (not shown)`);
  const bodyElement =
    body === null
      ? createEmptyText("The service cannot create the body again.")
      : createText(`Body of ${deliveryId}`, JSON.stringify(JSON.parse(body), null, 2));
  return [
    createText(`Headers of ${deliveryId}`, [...lines, ...customLines].join("\n")),
    bodyElement,
    createHint("The sent and signed body has no line breaks. Each attempt has its own signature."),
  ];
}
