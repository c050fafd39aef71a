import { getTimeZone } from "./clinics.js";
import { createEmptyText, getElement, h } from "./dom.js";
import { formatMinute, shortenId } from "./format.js";
import { createName, createNamedId } from "./names.js";
import { findSchedule } from "./schedules.js";
import { describeActor, describeChange, describeReason } from "./sentences.js";
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
    h("span", { class: "sentence", "data-sentence-of": event.id }),
    h("span", { class: "where" }, categoryTag, " ", ...createSubject(event, id)),
    h("span", { class: "by" }, ...describeActor(event.actor)),
  );
}

/** Creates the name of the event's record. An appointment has the time that it had at the event. */
function createSubject({ id: eventId, stream, revision }, id) {
  if (!stream.startsWith("appointment-")) return [createNamedId(id), ` @ ${revision}`];
  const shortId = h("span", { class: "id" }, shortenId(id));
  return [createName(id, false), h("span", { "data-time-of": eventId }), shortId, ` @ ${revision}`];
}

/** Fills in what the events changed, and when the appointments were, as far as the listed events say. */
export function showSchedules(events) {
  for (const event of events) {
    const { id, stream, revision, clinicId } = event;
    const timeZone = getTimeZone(clinicId) ?? "UTC";
    const schedule = findSchedule(stream, revision);
    const change = describeChange(event, findSchedule(stream, revision - 1), timeZone);
    const sentence = [change, describeReason(event)].filter(Boolean).join(", ");
    const timeText = schedule ? `${formatMinute(schedule.scheduledAt, timeZone)} ` : "";
    for (const element of document.querySelectorAll(`[data-sentence-of="${id}"]`)) element.textContent = sentence;
    for (const element of document.querySelectorAll(`[data-time-of="${id}"]`)) element.textContent = timeText;
  }
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
