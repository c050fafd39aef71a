import { byId, h } from "./dom.js";
import { addressOf } from "./search.js";
import { shortId } from "./text.js";
import { eventButton } from "./timeline.js";

/** Shows causes: requests, the events that they caused, and the consequences of those events. */
export function showCauses(events, onChoose) {
  const panel = byId("panel-causes");
  if (events.length === 0) return panel.replaceChildren(h("p", { class: "empty" }, "No events."));
  const known = new Set(events.map(({ id }) => id));
  const byCause = new Map();
  for (const event of events) {
    const cause = event.causationId ?? "unknown";
    if (!byCause.has(cause)) byCause.set(cause, []);
    byCause.get(cause).push(event);
  }
  const branch = (event) => {
    const caused = byCause.get(event.id) ?? [];
    return h(
      "li",
      {},
      eventButton(event, onChoose),
      caused.length > 0 ? h("ul", {}, ...caused.map(branch)) : "",
    );
  };
  const roots = [...byCause.keys()].filter((cause) => !known.has(cause));
  panel.replaceChildren(
    h(
      "ul",
      { class: "causes" },
      ...roots.map((cause) =>
        h("li", {}, rootLabel(cause, byCause.get(cause)), h("ul", {}, ...byCause.get(cause).map(branch))),
      ),
    ),
  );
}

function rootLabel(cause, caused) {
  const isRequest = caused.some(({ correlationId }) => correlationId === cause);
  if (cause === "unknown") return h("p", { class: "root" }, "Cause unknown");
  if (!isRequest) return h("p", { class: "root" }, `Caused by ${cause}, which is not in this list`);
  return h(
    "p",
    { class: "root" },
    "Request ",
    h("a", { href: addressOf({ kind: "correlation", id: cause }), title: cause }, shortId(cause)),
  );
}
