import { byId, h } from "./dom.js";
import { actorText, categoryText, shortId, streamParts, timeText, typeText } from "./text.js";

/** Creates the button of an event, for the timeline and the causes. */
export function eventButton(event, onChoose) {
  const [category, id] = streamParts(event.stream);
  return h(
    "button",
    {
      type: "button",
      class: "event",
      "data-event": event.id,
      "data-category": category,
      onclick: () => onChoose(event),
    },
    h(
      "span",
      { class: "what" },
      typeText(event.type),
      event.problem ? h("span", { class: "tag bad" }, "unreadable") : "",
    ),
    h("time", { datetime: event.occurredAt ?? event.storedAt }, timeText(event.occurredAt ?? event.storedAt)),
    h(
      "span",
      { class: "where" },
      h("span", { class: "tag" }, categoryText(category)),
      ` ${shortId(id)} @ ${event.revision}`,
    ),
    h("span", { class: "by" }, `by ${actorText(event.actor)}`),
  );
}

/** Marks the selected event in all views. */
export function markChosen(id) {
  for (const button of document.querySelectorAll("button.event")) {
    if (button.dataset.event === id) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

/** Shows the events in log order. The up and down arrow keys move between them. */
export function createTimeline(onChoose, onMore) {
  const panel = byId("panel-timeline");
  const list = h("ol", { class: "timeline", onkeydown: move });
  const more = h("button", { type: "button", class: "more", onclick: onMore, hidden: true }, "Show more");
  return {
    clear() {
      list.replaceChildren();
      more.hidden = true;
      panel.replaceChildren(list, more);
    },
    add: (event) => list.append(h("li", {}, eventButton(event, onChoose))),
    empty: () => panel.replaceChildren(h("p", { class: "empty" }, "No events found that you may see.")),
    offerMore(is) {
      more.hidden = !is;
    },
  };
}

function move(event) {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  const to = step && event.target.closest("li")?.[step]?.querySelector("button");
  if (!to) return;
  event.preventDefault();
  to.focus();
}
