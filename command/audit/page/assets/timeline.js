import { getTimeZone } from "./clinics.js";
import { createEmptyText, getElement, h } from "./dom.js";
import { formatMinute, shortenId } from "./format.js";
import { createName, createNamedId } from "./names.js";
import { findSchedule } from "./schedules.js";
import { describeActor, describeChange, describeReason } from "./sentences.js";
import { formatName, formatType, splitStreamName } from "./text.js";
import { createTime } from "./times.js";

/** Functions that fill in an event, and return true if no other event can change the result. */
let updates = [];

/** Creates the button that selects an event. The timeline and the tree of causes use the same button. */
export function createEventButton(event, onSelect) {
  const { id, stream, revision, clinicId } = event;
  const [category, streamId] = splitStreamName(stream);
  const isAppointment = category === "appointment";
  const timeZone = getTimeZone(clinicId) ?? "UTC";
  const problem = event.problem ? h("span", { class: "tag bad" }, "unreadable") : "";
  const erased = event.erased ? h("span", { class: "tag" }, "erased") : "";
  const sentence = h("span", { class: "sentence" });
  const appointmentTime = h("span");
  const subject = isAppointment
    ? [createName(streamId, false), appointmentTime, h("span", { class: "id" }, shortenId(streamId))]
    : [createNamedId(streamId)];
  const button = h(
    "button",
    { type: "button", class: "event", "data-event": id, "data-category": category, onclick: () => onSelect(event) },
    h("span", { class: "what" }, formatType(event.type), problem, erased),
    createTime(event.occurredAt ?? event.storedAt, clinicId),
    sentence,
    h("span", { class: "where" }, h("span", { class: "tag" }, formatName(category)), " ", ...subject, ` @ ${revision}`),
    h("span", { class: "by" }, ...describeActor(event.actor)),
  );
  updates.push(() => {
    const before = isAppointment ? findSchedule(stream, revision - 1) : undefined;
    const schedule = isAppointment ? findSchedule(stream, revision) : undefined;
    const change = describeChange(event, before, timeZone);
    sentence.textContent = [change, describeReason(event)].filter(Boolean).join(", ");
    appointmentTime.textContent = schedule ? `${formatMinute(schedule.scheduledAt, timeZone)} ` : "";
    return !isAppointment || revision === 0 || before !== undefined || !button.isConnected;
  });
  return button;
}

/**
 * Fills in what the events changed, and when the appointments were, as far as the listed events say. Events that wait for
 * an earlier event are filled in again after the next page.
 */
export function showSchedules() {
  updates = updates.filter((update) => !update());
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
      updates = [];
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
