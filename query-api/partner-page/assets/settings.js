import { runAction } from "./actions.js";
import { getClinic } from "./clinic.js";
import { getElement, h } from "./dom.js";
import { request } from "./session.js";

/** Event types that an endpoint can receive, by the settings `events` and `operationalEvents`. */
const TYPES = JSON.parse(getElement("endpoint-form").dataset.types);

const ORDERINGS = { none: "none", appointment: "per appointment" };
const ORDERING_HINT = "Per appointment: a failing delivery holds back only later events of its own appointment.";
const FORMATS = { standard: "standard", cloudevents: "CloudEvents 1.0" };
const SIGNATURE_LABEL = "Also sign with Ed25519 (v1a), which needs no secret to verify";

/**
 * Creates the form that changes the settings of an endpoint. The form sends only changed settings, and calls `onSave`
 * with the changed endpoint.
 */
export function createSettingsForm(endpoint, onSave) {
  const branches = getClinic().branches.map(({ id, name }) => [id, name]);
  const submit = h("button", { type: "submit", class: "primary" }, "Save settings");
  const form = h(
    "form",
    { class: "form", autocomplete: "off" },
    createField(
      "URL",
      h("input", { id: "setting-url", name: "url", type: "url", required: true, spellcheck: "false" }),
    ),
    createChoices("Events", "events", TYPES.events, endpoint.events),
    createChoices("Events about endpoints", "operationalEvents", TYPES.operationalEvents, endpoint.operationalEvents),
    // Without a checked branch, the endpoint receives the events of all branches.
    createChoices("Only these branches (none checked: all branches)", "branchIds", branches, endpoint.branchIds ?? []),
    createSelectField("Order of deliveries", "ordering", ORDERINGS, endpoint, ORDERING_HINT),
    createSelectField("Format of the bodies", "bodyFormat", FORMATS, endpoint),
    createChoices(
      "Signatures",
      "asymmetricSignature",
      [["on", SIGNATURE_LABEL]],
      endpoint.asymmetricSignature ? ["on"] : [],
    ),
    createField(
      "Attempts per second, empty for no limit",
      h("input", { id: "setting-rate", name: "rateLimitPerSecond", type: "number", min: "1", max: "1000", step: "1" }),
    ),
    createHeaderFields(endpoint),
    h("div", { class: "buttons" }, submit, h("div", { class: "alert", id: "settings-alert", role: "alert" })),
  );
  form.querySelector("#setting-url").value = endpoint.url;
  form.querySelector("#setting-rate").value = endpoint.rateLimitPerSecond ?? "";
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    runAction({ button: submit, alertId: "settings-alert" }, async () => {
      const body = readChanges(form, endpoint);
      const { endpoint: changed } = await request("PATCH", `/webhook-endpoints/${endpoint.id}`, { body });
      form.parentElement.open = false;
      onSave(changed);
    });
  });
  return h("details", { class: "settings" }, h("summary", {}, "Change settings"), form);
}

function createField(label, input, hint) {
  const hintId = `${input.id}-hint`;
  if (hint) input.setAttribute("aria-describedby", hintId);
  return h(
    "div",
    { class: "field" },
    h("label", { for: input.id }, label),
    input,
    hint ? h("p", { class: "hint", id: hintId }, hint) : "",
  );
}

/** Creates a group of check boxes. `options` are values, or pairs of a value and its label. */
function createChoices(legend, name, options, selected) {
  const boxes = options.map((option) => {
    const [value, label] = Array.isArray(option) ? option : [option, option];
    const input = h("input", { type: "checkbox", name, value, checked: selected.includes(value) });
    return h("label", {}, input, ` ${label}`);
  });
  return h("fieldset", { class: "choices" }, h("legend", {}, legend), ...boxes);
}

/** Creates a field that selects one of several values. `options` are the texts by value. */
function createSelectField(label, name, options, endpoint, hint) {
  const elements = Object.entries(options).map(([value, text]) =>
    h("option", { value, selected: value === endpoint[name] }, text),
  );
  return createField(label, h("select", { id: `setting-${name}`, name }, ...elements), hint);
}

function createHeaderFields({ headerNames }) {
  const removal = createChoices("Remove custom headers", "removedHeaders", headerNames, []);
  return h(
    "div",
    { class: "fields" },
    createField(
      "New custom header",
      h("input", { id: "setting-header", name: "headers", spellcheck: "false", placeholder: "X-Api-Key" }),
    ),
    createField(
      "Value of the header",
      h("input", { id: "setting-header-value", type: "password", autocomplete: "off", maxlength: "1024" }),
      "The API never returns the value.",
    ),
    headerNames.length === 0 ? "" : removal,
  );
}

/** Returns the settings in the form that differ from the endpoint's settings. */
function readChanges(form, endpoint) {
  const listChecked = (name) => [...form.querySelectorAll(`[name="${name}"]:checked`)].map(({ value }) => value);
  const rateText = getElement("setting-rate").value;
  const checkedBranchIds = listChecked("branchIds");
  const settings = {
    url: getElement("setting-url").value.trim(),
    events: listChecked("events"),
    operationalEvents: listChecked("operationalEvents"),
    branchIds: checkedBranchIds.length === 0 ? null : checkedBranchIds,
    ordering: getElement("setting-ordering").value,
    bodyFormat: getElement("setting-bodyFormat").value,
    asymmetricSignature: listChecked("asymmetricSignature").length === 1,
    rateLimitPerSecond: rateText === "" ? null : Number(rateText),
  };
  const changes = Object.entries(settings).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(endpoint[name]),
  );
  const headers = Object.fromEntries(listChecked("removedHeaders").map((name) => [name, null]));
  const headerName = getElement("setting-header").value.trim();
  if (headerName !== "") headers[headerName] = getElement("setting-header-value").value;
  return { ...Object.fromEntries(changes), ...(Object.keys(headers).length === 0 ? {} : { headers }) };
}
