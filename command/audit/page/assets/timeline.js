import { createEmptyText, getElement, h } from "./dom.js";
import { formatActor, formatName, formatTime, formatType, shortenId, splitStreamName } from "./text.js";

/** Creates the button that selects an event. The timeline and the tree of causes use the same button. */
export function createEventButton(event, onSelect) {
  const [category, id] = splitStreamName(event.stream);
  const time = event.occurredAt ?? event.storedAt;
  const problem = event.problem ? h("span", { class: "tag bad" }, "unreadable") : "";
  const categoryTag = h("span", { class: "tag" }, formatName(category));
  return h(
    "button",
    {
      type: "button",
      class: "event",
      "data-event": event.id,
      "data-category": category,
      onclick: () => onSelect(event),
    },
    h("span", { class: "what" }, formatType(event.type), problem),
    h("time", { datetime: time }, formatTime(time)),
    h("span", { class: "where" }, categoryTag, ` ${shortenId(id)} @ ${event.revision}`),
    h("span", { class: "by" }, `by ${formatActor(event.actor)}`),
  );
}

/** Marks the selected event in all views. */
export function markSelected(id) {
  for (const button of document.querySelectorAll("button.event")) {
    if (button.dataset.event === id) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

/** Creates the list of events in log order. The up and down arrow keys move the focus from event to event. */
export function createTimeline(onSelect, onMore) {
  const panel = getElement("panel-timeline");
  const list = h("ol", { class: "timeline", onkeydown: moveFocus });
  const more = h("button", { type: "button", class: "more", onclick: onMore, hidden: true }, "Show more");
  return {
    clear() {
      list.replaceChildren();
      more.hidden = true;
      panel.replaceChildren(list, more);
    },
    add: (event) => list.append(h("li", {}, createEventButton(event, onSelect))),
    showEmpty: () => panel.replaceChildren(createEmptyText("No visible events match this search.")),
    /** Shows or hides the button that loads the next page. */
    offerMore(isOffered) {
      more.hidden = !isOffered;
    },
  };
}

function moveFocus(event) {
  const sibling = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  const button = sibling && event.target.closest("li")?.[sibling]?.querySelector("button");
  if (!button) return;
  event.preventDefault();
  button.focus();
}
