import { createEmptyText, getElement, h } from "./dom.js";
import { toUrlFragment } from "./search.js";
import { describeActor } from "./sentences.js";
import { createEventButton, showSchedules } from "./timeline.js";
import { createLocalTime } from "./times.js";

/** Shows a tree of causes: requests, the events that they caused, and the consequences of those events. */
export function showCauses(events, onSelect) {
  const panel = getElement("panel-causes");
  if (events.length === 0) return panel.replaceChildren(createEmptyText("No events."));
  const eventIds = new Set(events.map(({ id }) => id));
  const eventsByCause = new Map();
  for (const event of events) {
    const cause = event.causationId ?? "unknown";
    if (!eventsByCause.has(cause)) eventsByCause.set(cause, []);
    eventsByCause.get(cause).push(event);
  }
  const createBranch = (event) => {
    const caused = eventsByCause.get(event.id) ?? [];
    const consequences = caused.length > 0 ? h("ul", {}, ...caused.map(createBranch)) : "";
    return h("li", {}, createEventButton(event, onSelect), consequences);
  };
  const roots = [...eventsByCause.keys()].filter((cause) => !eventIds.has(cause));
  const items = roots.map((cause) => {
    const caused = eventsByCause.get(cause);
    return h("li", {}, createRootLabel(cause, caused), h("ul", {}, ...caused.map(createBranch)));
  });
  panel.replaceChildren(h("ul", { class: "causes" }, ...items));
  showSchedules();
}

/** Describes a cause that is not in the list, with a link to all events of its request. */
function createRootLabel(cause, [{ correlationId, actor, occurredAt, storedAt, clinicId }]) {
  if (cause === "unknown") return h("p", { class: "root" }, "Cause unknown");
  const createLink = (...text) => h("a", { href: toUrlFragment({ kind: "correlation", id: correlationId }) }, ...text);
  if (cause === correlationId) {
    const time = createLocalTime(occurredAt ?? storedAt, clinicId);
    return h("p", { class: "root" }, createLink("Request ", ...describeActor(actor), ", ", time));
  }
  const link = correlationId ? createLink("Show all events of its request") : "";
  return h("p", { class: "root" }, "An event outside this list. ", link);
}
