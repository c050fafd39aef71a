import { askLines } from "./api.js";
import { byId, h } from "./dom.js";
import { addressOf } from "./search.js";
import { actorText, timeText, typeText, valueText } from "./text.js";

/** Maximum number of events of a stream that are shown. */
const MAX_STEPS = 2_000;

/** Shows the selected event, its changes, and the state of its stream at any point. */
export function createDetail({ onChoose, onAlert }) {
  const streams = new Map();
  let reading = new AbortController();

  /** Each stream is read once per search. */
  async function stepsOf(stream, signal) {
    const kept = streams.get(stream);
    if (kept) return kept;
    const steps = [];
    for await (const step of askLines("replay", { stream }, signal)) {
      steps.push(step);
      if (steps.length === MAX_STEPS) break;
    }
    streams.set(stream, steps);
    return steps;
  }

  async function show(event) {
    reading.abort();
    reading = new AbortController();
    const { signal } = reading;
    const body = byId("detail-body");
    byId("detail-title").textContent = typeText(event.type);
    const state = h("div", { class: "state" }, h("p", { class: "empty" }, "Loading the stream …"));
    body.replaceChildren(
      event.problem ? h("p", { class: "alert" }, event.problem) : "",
      facts(event),
      state,
      h("details", {}, h("summary", {}, "Data as stored"), pre(event.data, "Data as stored")),
    );
    try {
      const steps = await stepsOf(event.stream, signal);
      if (signal.aborted) return;
      const index = steps.findIndex((step) => step.event.id === event.id);
      if (index < 0)
        state.replaceChildren(
          h("p", { class: "empty" }, "The stream is too long: the state at this event cannot be shown."),
        );
      else state.replaceChildren(...stateOf(steps, index, onChoose));
    } catch (error) {
      if (signal.aborted) return;
      state.replaceChildren(h("p", { class: "empty" }, error.message));
      onAlert(error);
    }
  }

  return {
    show,
    clear() {
      reading.abort();
      streams.clear();
      byId("detail-title").textContent = "Event";
      byId("detail-body").replaceChildren(h("p", { class: "empty" }, "Select an event to see its changes."));
    },
  };
}

function facts(event) {
  const { stream, revision, correlationId, causationId, actor } = event;
  const link = (kind, id, text = id) => h("a", { href: addressOf({ kind, id }) }, text);
  const rows = [
    ["Occurred", `${timeText(event.occurredAt)} UTC`],
    ["Stored", `${timeText(event.storedAt)} UTC`],
    [
      "Done by",
      h("span", { title: actor?.id ?? "" }, actor ? `${actor.type} ${actor.id}` : actorText(actor)),
    ],
    ["Stream", h("span", {}, link("stream", stream), ` @ ${revision}`)],
    ["Request", correlationId ? link("correlation", correlationId) : "unknown"],
    ["Caused by", causationId === correlationId ? "the request" : (causationId ?? "unknown")],
    ["Clinic", event.clinicId ? link("clinic", event.clinicId) : "none"],
    ["Event id", event.id],
    ["Position", event.position],
  ];
  return h(
    "dl",
    { class: "facts" },
    ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

/** The slider moves from event to event and shows the state right after it. */
function stateOf(steps, index, onChoose) {
  const { changes, state, event } = steps[index];
  const last = steps.length - 1;
  const slider = h("input", {
    ...{ type: "range", id: "point", min: 0, max: last, step: 1, value: index, disabled: last === 0 },
    "aria-valuetext": `after event ${index + 1} of ${steps.length}, ${typeText(event.type)}`,
    onchange: ({ target }) => onChoose(steps[Number(target.value)].event, true),
  });
  const go = (to, text) =>
    h(
      "button",
      { type: "button", disabled: to < 0 || to > last, onclick: () => onChoose(steps[to].event) },
      text,
    );
  return [
    h("h3", {}, "Changes"),
    changes.length === 0 ? h("p", { class: "empty" }, "No changes in the state.") : changeTable(changes),
    h("h3", {}, "State after the event"),
    h(
      "div",
      { class: "points" },
      h("label", { for: "point" }, `After event ${index + 1} of ${steps.length}`),
      slider,
      h("div", { class: "go" }, go(index - 1, "Previous"), go(index + 1, "Next")),
    ),
    stateTable(state, new Set(changes.map(({ path }) => path))),
  ];
}

function changeTable(changes) {
  const head = ["Field", "Before", "After"].map((title) => h("th", { scope: "col" }, title));
  const rows = changes.map((change) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, change.path),
      h("td", { class: "before" }, valueText(change.before)),
      h("td", { class: "after" }, valueText(change.after)),
    ),
  );
  return scroll(
    "Changes",
    h("table", { class: "changes" }, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows)),
  );
}

function stateTable(state, changed) {
  if (state === null) return h("p", { class: "empty" }, "No state.");
  const rows = [...leaves("", state)].map(([path, value]) =>
    h(
      "tr",
      changed.has(path) ? { class: "changed" } : {},
      h("th", { scope: "row" }, path, changed.has(path) ? h("span", { class: "tag" }, "changed") : ""),
      h("td", {}, valueText(value)),
    ),
  );
  const head = h("tr", {}, h("th", { scope: "col" }, "Field"), h("th", { scope: "col" }, "Value"));
  return scroll("State", h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows)));
}

/** Yields the fields of a state with the same paths as in changes. */
function* leaves(path, value) {
  if (typeof value !== "object" || value === null) return yield [path, value];
  const keyed =
    Array.isArray(value) && value.length > 0 && value.every((item) => typeof item?.id === "string");
  if (Array.isArray(value) && !keyed) return yield [path, value];
  const entries = keyed ? value.map((item) => [`[${item.id}]`, item]) : Object.entries(value);
  if (entries.length === 0) return yield [path, value];
  for (const [key, inner] of entries)
    yield* leaves(path === "" || keyed ? `${path}${key}` : `${path}.${key}`, inner);
}

function scroll(label, table) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);
}

function pre(value, label) {
  return h("pre", { tabindex: "0", role: "region", "aria-label": label }, JSON.stringify(value, null, 2));
}
