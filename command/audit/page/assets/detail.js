import { fetchList } from "./api.js";
import { createEmptyText, createFactList, createTable, createText, getElement, h } from "./dom.js";
import { isUuid } from "./format.js";
import { createName, createNamedId } from "./names.js";
import { toUrlFragment } from "./search.js";
import { describeEvent } from "./sentences.js";
import { formatType, formatValue, splitStreamName } from "./text.js";
import { announce, createLocalTime, createTime } from "./times.js";

/** Matches a time in UTC. */
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

const ERASED_TEXT = "The personal data of this event was erased. Neutral values are shown instead.";

/**
 * Creates the view that shows the selected event, the fields that the event changed, and the state of the stream after
 * any event of the stream.
 *
 * @param {{ onSelect(event: object): void, onError(error: Error): void, countEvents(): number }} options `countEvents`:
 *   returns the number of listed events
 */
export function createDetailView({ onSelect, onError, countEvents }) {
  const stepsByStream = new Map();
  let readController = new AbortController();

  /**
   * Reads the events of a stream, the fields that each event changed, and the resulting states. A stream is read again
   * after more events were listed, because they can be newer.
   */
  async function readSteps(stream, signal) {
    const key = `${stream} ${countEvents()}`;
    const cached = stepsByStream.get(key);
    if (cached) return cached;
    const { items: steps } = await fetchList("replay", { stream }, signal);
    stepsByStream.set(key, steps);
    return steps;
  }

  async function show(event) {
    readController.abort();
    readController = new AbortController();
    const { signal } = readController;
    const body = getElement("detail-body");
    getElement("detail-title").textContent = formatType(event.type);
    const sentence = h("p", { class: "sentence" });
    const state = h("div", { class: "state" }, createEmptyText("Loading the stream …"));
    getElement("back").hidden = false;
    body.replaceChildren(
      event.problem ? h("p", { class: "alert" }, event.problem) : "",
      event.erased ? h("p", { class: "hint" }, ERASED_TEXT) : "",
      sentence,
      createFacts(event),
      state,
      h(
        "details",
        {},
        h("summary", {}, "Data as stored"),
        createText("Data as stored", JSON.stringify(event.data, null, 2)),
      ),
    );
    try {
      const steps = await readSteps(event.stream, signal);
      if (signal.aborted) return;
      const index = steps.findIndex((step) => step.event.id === event.id);
      sentence.replaceChildren(...describeEvent(event, steps[index - 1]?.state ?? undefined));
      if (index < 0)
        state.replaceChildren(createEmptyText("The stream is too long to show the state after this event."));
      else state.replaceChildren(...createState(steps, index, onSelect));
      const count = steps[index]?.changes.length ?? 0;
      announce(`${formatType(event.type)}: ${count} ${count === 1 ? "change" : "changes"}`);
    } catch (error) {
      if (signal.aborted) return;
      state.replaceChildren(createEmptyText(error.message));
      onError(error);
    }
  }

  return {
    show,
    clear() {
      readController.abort();
      stepsByStream.clear();
      getElement("back").hidden = true;
      getElement("detail-title").textContent = "Event";
      getElement("detail-body").replaceChildren(createEmptyText("Select an event to see its changes."));
    },
  };
}

/** Creates the list of the event's metadata. */
function createFacts(event) {
  const { stream, revision, correlationId, causationId, actor, clinicId } = event;
  const link = (kind, id, text = id) => h("a", { href: toUrlFragment({ kind, id }) }, text);
  const describeId = (description, id) => h("span", {}, description, " ", h("span", { class: "id" }, id));
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

/** Creates the value of a field. Ids are shown with the names of their records, and times in the clinic's time zone. */
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
  const createStepButton = (to, text) => {
    const onclick = () => onSelect(steps[to].event);
    return h("button", { type: "button", disabled: to < 0 || to > last, onclick }, text);
  };
  const buttons = [createStepButton(index - 1, "Previous"), createStepButton(index + 1, "Next")];
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
      h("div", { class: "go" }, ...buttons),
    ),
    createStateTable(state, new Set(changes.map(({ path }) => path)), event.clinicId),
  ];
}

function createChangeTable(changes, clinicId) {
  const rows = changes.map((change) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, change.path),
      h("td", { class: "before" }, createValue(change.before, clinicId)),
      h("td", { class: "after" }, createValue(change.after, clinicId)),
    ),
  );
  return createTable("Changes", ["Field", "Before", "After"], rows, { class: "changes" });
}

function createStateTable(state, changedPaths, clinicId) {
  if (state === null) return createEmptyText("No state.");
  const rows = [...listFields("", state)].map(([path, value]) => {
    const isChanged = changedPaths.has(path);
    const title = h("th", { scope: "row" }, path, isChanged ? h("span", { class: "tag" }, "changed") : "");
    return h("tr", isChanged ? { class: "changed" } : {}, title, h("td", {}, createValue(value, clinicId)));
  });
  return createTable("State", ["Field", "Value"], rows);
}

/** Yields the fields of a state. The paths of the fields are the same as in the list of changes. */
function* listFields(path, value) {
  if (typeof value !== "object" || value === null) return yield [path, value];
  const hasIds = Array.isArray(value) && value.length > 0 && value.every((item) => typeof item?.id === "string");
  if (Array.isArray(value) && !hasIds) return yield [path, value];
  const entries = hasIds ? value.map((item) => [`[${item.id}]`, item]) : Object.entries(value);
  if (entries.length === 0) return yield [path, value];
  for (const [key, inner] of entries)
    yield* listFields(path === "" || hasIds ? `${path}${key}` : `${path}.${key}`, inner);
}
