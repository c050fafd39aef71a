import { createEmptyText, getElement, h } from "./dom.js";
import { shortenId } from "./format.js";
import { toUrlFragment } from "./search.js";
import { createEventButton, showSchedules } from "./timeline.js";

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
  showSchedules(events);
}

function createRootLabel(cause, caused) {
  const isRequest = caused.some(({ correlationId }) => correlationId === cause);
  if (cause === "unknown") return h("p", { class: "root" }, "Cause unknown");
  if (!isRequest) return h("p", { class: "root" }, `Caused by ${cause}, which is not in this list`);
  const href = toUrlFragment({ kind: "correlation", id: cause });
  return h("p", { class: "root" }, "Request ", h("a", { href, title: cause }, shortenId(cause)));
}
