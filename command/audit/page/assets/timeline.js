import { createEmptyText, getElement, h } from "./dom.js";
import { createNamedId } from "./names.js";
import { formatName, formatType, splitStreamName } from "./text.js";
import { createTime } from "./times.js";

/** Creates the button that selects an event. The timeline and the tree of causes use the same button. */
export function createEventButton(event, onSelect) {
  const [category, id] = splitStreamName(event.stream);
  const time = event.occurredAt ?? event.storedAt;
  const problem = event.problem ? h("span", { class: "tag bad" }, "unreadable") : "";
  const erased = event.erased ? h("span", { class: "tag" }, "erased") : "";
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
    h("span", { class: "what" }, formatType(event.type), problem, erased),
    createTime(time, event.clinicId),
    h("span", { class: "where" }, categoryTag, " ", createNamedId(id), ` @ ${event.revision}`),
    h("span", { class: "by" }, ...describeActor(event.actor)),
  );
}

function describeActor(actor) {
  return actor ? [`by ${actor.type} `, createNamedId(actor.id)] : ["by unknown"];
}

/** Marks the selected event in all views. */
export function markSelected(id) {
  for (const button of document.querySelectorAll("button.event")) {
    if (button.dataset.event === id) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

/** Creates the list of events in the order of the search. The up and down arrow keys move the focus from event to event. */
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
    showEmpty: (text) => panel.replaceChildren(createEmptyText(text), more),
    /** Shows or hides the button that loads the next page. */
    offerMore(isOffered, text = "Show more") {
      more.hidden = !isOffered;
      more.textContent = text;
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
