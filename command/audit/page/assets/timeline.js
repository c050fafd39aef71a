import { announce } from "./actions.js";
import { createLocalTime, createTime, getTimeZone } from "./clinics.js";
import { createButton, createEmptyText, createId, createTag, getElement, h } from "./dom.js";
import { formatCount, formatMinute, shortenId } from "./format.js";
import { createName, createNamedId } from "./names.js";
import { toUrlFragment } from "./search.js";
import { describeActor, describeChange, describeReason } from "./sentences.js";
import { formatName, formatType, splitStreamName } from "./text.js";

/**
 * Listed events of appointments, by stream and revision. They show when an appointment was scheduled at the time of
 * each event, even if it was moved later.
 */
const eventsByStream = new Map();

/** Event types that set the schedule of an appointment. */
const SCHEDULING_TYPES = ["AppointmentRequested", "AppointmentImported", "AppointmentRescheduled"];

/** Functions that update an event button. They return true if later pages cannot change its texts. */
let updates = [];

/**
 * Returns the schedule of an appointment after the given revision of its stream. Returns undefined if the event that
 * set the schedule is unknown, because an event of the stream is not listed.
 *
 * @returns {{ scheduledAt: string, durationMinutes: number } | undefined}
 */
function findSchedule(stream, revision) {
  const events = eventsByStream.get(stream);
  for (let event = events?.get(revision); event; event = events.get(event.revision - 1))
    if (SCHEDULING_TYPES.includes(event.type)) return event.problem ? undefined : event.data;
  return undefined;
}

/** Creates a button that shows and selects an event, for the timeline and for the tree of causes. */
function createEventButton(event, onSelect) {
  const { id, stream, revision, clinicId } = event;
  const [category, streamId] = splitStreamName(stream);
  const isAppointment = category === "appointment";
  const timeZone = getTimeZone(clinicId);
  const sentence = h("span", { class: "sentence" });
  const appointmentTime = h("span");
  const subject = isAppointment
    ? [createName(streamId, false), appointmentTime, createId(shortenId(streamId))]
    : [createNamedId(streamId)];
  const tags = [event.problem ? createTag("unreadable", "bad") : "", event.erased ? createTag("erased") : ""];
  const button = h(
    "button",
    { type: "button", class: "choice event", "data-id": id, "data-category": category, onclick: () => onSelect(event) },
    h("span", { class: "what" }, formatType(event.type), ...tags),
    createTime(event.occurredAt ?? event.storedAt, clinicId),
    sentence,
    h("span", { class: "where" }, createTag(formatName(category)), " ", ...subject, ` @ ${revision}`),
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
 * Updates the event buttons with the changes and the times of appointments that the listed events reveal. If an earlier
 * event is not yet listed, the button is updated again after the next page.
 */
function showSchedules() {
  updates = updates.filter((update) => !update());
}

/** Creates the list of events, in the order of the search. The up and down arrow keys move the focus between events. */
export function createTimeline(onSelect, onMore) {
  const panel = getElement("panel-timeline");
  const list = h("ol", { class: "timeline", onkeydown: moveFocus });
  const more = createButton("", { class: "more", onclick: onMore, hidden: true });
  return {
    clear() {
      updates = [];
      eventsByStream.clear();
      list.replaceChildren();
      more.hidden = true;
      panel.replaceChildren(list, more);
    },
    add(events) {
      for (const event of events.filter(({ stream }) => stream.startsWith("appointment-"))) {
        if (!eventsByStream.has(event.stream)) eventsByStream.set(event.stream, new Map());
        eventsByStream.get(event.stream).set(event.revision, event);
      }
      const isMoreFocused = document.activeElement === more;
      const buttons = events.map((event) => createEventButton(event, onSelect));
      list.append(...buttons.map((button) => h("li", {}, button)));
      showSchedules();
      // The button that loads the next page can disappear.
      if (isMoreFocused) buttons[0]?.focus();
    },
    showEmpty: (text) => panel.replaceChildren(createEmptyText(text), more),
    /** Shows or hides the button that loads the next page. */
    offerMore(isOffered, text = "") {
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

/** Shows a tree of causes. Below each request or event are the events that it caused. */
export function showCauses(events, onSelect) {
  const panel = getElement("panel-causes");
  if (events.length === 0) return panel.replaceChildren(createEmptyText("No events."));
  const eventIds = new Set(events.map(({ id }) => id));
  const eventsByCause = Map.groupBy(events, ({ causationId }) => causationId ?? "unknown");
  const createBranch = (event) => {
    const caused = eventsByCause.get(event.id) ?? [];
    const consequences = caused.length > 0 ? h("ul", {}, ...caused.map(createBranch)) : "";
    return h("li", {}, createEventButton(event, onSelect), consequences);
  };
  const roots = [...eventsByCause].filter(([cause]) => !eventIds.has(cause));
  const items = roots.map(([cause, caused]) =>
    h("li", {}, createRootLabel(cause, caused), h("ul", {}, ...caused.map(createBranch))),
  );
  panel.replaceChildren(h("ul", { class: "causes" }, ...items));
  showSchedules();
  announce(`${formatCount(events.length, "event")} with ${formatCount(roots.length, "cause")}`);
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
