import { announce } from "./actions.js";
import { fetchList } from "./api.js";
import { createLocalTime, createTime } from "./clinics.js";
import {
  createButton,
  createEmptyText,
  createFactList,
  createHint,
  createId,
  createRow,
  createTable,
  createTag,
  createText,
  getElement,
  h,
} from "./dom.js";
import { formatCount, isUuid } from "./format.js";
import { createName, createNamedId } from "./names.js";
import { toUrlFragment } from "./search.js";
import { describeEvent } from "./sentences.js";
import { formatType, formatValue, splitStreamName } from "./text.js";

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

const ERASED_TEXT = "The personal data of this event was erased. Neutral values are shown instead.";

/** Events with their changes and the resulting states, by stream and number of listed events. */
const stepsByStream = new Map();

let controller = new AbortController();

/** Clears the displayed event and the cached streams. */
export function clearDetail() {
  controller.abort();
  stepsByStream.clear();
  getElement("back").hidden = true;
  getElement("detail-title").textContent = "Event";
  getElement("detail-body").replaceChildren(createEmptyText("Select an event to see its changes."));
}

/**
 * Shows an event, the fields that it changed, and the state of its stream after the event or any other event of the
 * stream.
 *
 * @param {number} eventCount number of listed events. If it has grown, the stream is read again, because it can have
 *   new events.
 */
export async function showDetail(event, eventCount, onSelect) {
  controller.abort();
  controller = new AbortController();
  const { signal } = controller;
  getElement("detail-title").textContent = formatType(event.type);
  const sentence = h("p", { class: "sentence" });
  const state = h("div", { class: "state" }, createEmptyText("Loading the stream …"));
  getElement("back").hidden = false;
  const data = createText("Data as stored", JSON.stringify(event.data, null, 2));
  getElement("detail-body").replaceChildren(
    event.problem ? h("p", { class: "alert" }, event.problem) : "",
    event.erased ? createHint(ERASED_TEXT) : "",
    sentence,
    createFacts(event),
    state,
    h("details", {}, h("summary", {}, "Data as stored"), data),
  );
  try {
    const steps = await readSteps(`${event.stream} ${eventCount}`, event.stream, signal);
    signal.throwIfAborted();
    const index = steps.findIndex((step) => step.event.id === event.id);
    sentence.replaceChildren(...describeEvent(event, steps[index - 1]?.state ?? undefined));
    if (index < 0) state.replaceChildren(createEmptyText("The stream is too long to show the state after this event."));
    else state.replaceChildren(...createState(steps, index, onSelect));
    announce(`${formatType(event.type)}: ${formatCount(steps[index]?.changes.length ?? 0, "change")}`);
  } catch (error) {
    if (!signal.aborted) state.replaceChildren(createEmptyText(error.message));
  }
}

async function readSteps(key, stream, signal) {
  if (!stepsByStream.has(key)) stepsByStream.set(key, (await fetchList("replay", { stream }, signal)).items);
  return stepsByStream.get(key);
}

/** Creates the list of the event's metadata. */
function createFacts(event) {
  const { stream, revision, correlationId, causationId, actor, clinicId } = event;
  const link = (kind, id, text = id) => h("a", { href: toUrlFragment({ kind, id }) }, text);
  const describeId = (description, id) => h("span", {}, description, " ", createId(id));
  const describeCause = () => (causationId ? describeId("an event of the request", causationId) : "unknown");
  const rows = [
    ["Occurred", createTime(event.occurredAt, clinicId)],
    ["Stored", createTime(event.storedAt, clinicId)],
    ["Done by", actor ? h("span", {}, `${actor.type} `, createNamedId(actor.id, false)) : "unknown"],
    ...(actor?.note ? [["Note", actor.note]] : []),
    ["Stream", h("span", {}, createStreamName(stream), link("stream", stream), ` @ ${revision}`)],
    [
      "Request",
      correlationId ? describeId(link("correlation", correlationId, "all its events"), correlationId) : "unknown",
    ],
    ["Caused by", causationId === correlationId ? "the request" : describeCause()],
    ["Clinic", clinicId ? h("span", {}, createName(clinicId), link("clinic", clinicId)) : "none"],
    ["Event id", event.id],
    ["Position", event.position],
  ];
  return createFactList(rows);
}

function createStreamName(stream) {
  const [, id] = splitStreamName(stream);
  return isUuid(id) ? createName(id, false) : "";
}

/** Creates the value of a field. An id is followed by the name of its record. A time is in the clinic's time zone. */
function createValue(value, clinicId) {
  if (typeof value === "string" && INSTANT.test(value)) return createLocalTime(value, clinicId);
  const ids = (Array.isArray(value) ? value : [value]).filter(isUuid);
  return h("span", {}, formatValue(value), ...ids.flatMap((id) => [" ", createName(id)]));
}

/** Creates the changes of an event and the state after the event. The slider selects another event of the stream. */
function createState(steps, index, onSelect) {
  const { changes, state, event, problem } = steps[index];
  const last = steps.length - 1;
  const slider = h("input", {
    ...{ type: "range", id: "point", min: 0, max: last, step: 1, value: index, disabled: last === 0 },
    "aria-valuetext": `after event ${index + 1} of ${steps.length}, ${formatType(event.type)}`,
    onchange: ({ target }) => onSelect(steps[Number(target.value)].event, true),
  });
  const createStepButton = (to, text) =>
    createButton(text, { disabled: to < 0 || to > last, onclick: () => onSelect(steps[to].event) });
  return [
    problem ? h("p", { class: "alert" }, `The state is unknown: ${problem}`) : "",
    h("h3", {}, "Changes"),
    changes.length === 0 ? createEmptyText("No changes in the state.") : createChangeTable(changes, event.clinicId),
    h("h3", {}, "State after the event"),
    h(
      "div",
      { class: "points" },
      h("label", { for: "point" }, `After event ${index + 1} of ${steps.length}`),
      slider,
      h("div", { class: "go" }, createStepButton(index - 1, "Previous"), createStepButton(index + 1, "Next")),
    ),
    createStateTable(state, new Set(changes.map(({ path }) => path)), event.clinicId),
  ];
}

function createChangeTable(changes, clinicId) {
  const rows = changes.map(({ path, before, after }) =>
    createRow(path, [createValue(before, clinicId), createValue(after, clinicId)]),
  );
  return createTable("Changes", ["Field", "Before", "After"], rows, { class: "changes" });
}

function createStateTable(state, changedPaths, clinicId) {
  if (state === null) return createEmptyText("No state.");
  const rows = [...listFields("", state)].map(([path, value]) => {
    const isChanged = changedPaths.has(path);
    const title = isChanged ? h("span", {}, path, createTag("changed")) : path;
    return createRow(title, [createValue(value, clinicId)], isChanged ? { class: "changed" } : {});
  });
  return createTable("State", ["Field", "Value"], rows);
}

/** Yields the fields of a state as pairs of path and value, with the same paths as in the list of changes. */
function* listFields(path, value) {
  if (typeof value !== "object" || value === null) return yield [path, value];
  const hasIds = Array.isArray(value) && value.length > 0 && value.every((item) => typeof item?.id === "string");
  if (Array.isArray(value) && !hasIds) return yield [path, value];
  const entries = hasIds ? value.map((item) => [`[${item.id}]`, item]) : Object.entries(value);
  if (entries.length === 0) return yield [path, value];
  for (const [key, inner] of entries)
    yield* listFields(path === "" || hasIds ? `${path}${key}` : `${path}.${key}`, inner);
}
