import { clearError, runAction } from "./actions.js";
import { getBranchName } from "./clinic.js";
import { confirmAction } from "./confirm.js";
import { createCopyButton } from "./copy.js";
import { clearDeliveries, initDeliveries, showDeliveries } from "./deliveries.js";
import {
  createButton,
  createEmptyText,
  createFactList,
  createId,
  createStatusTag,
  createTags,
  getElement,
  h,
} from "./dom.js";
import { markEndpoint, updateEndpoint } from "./endpoints.js";
import { formatUtc } from "./format.js";
import { createHealthText, getHealth, isBeingDisabled } from "./health.js";
import { showOutcomes } from "./outcomes.js";
import { request, wait } from "./session.js";
import { createSettingsForm } from "./settings.js";
import { createTime } from "./times.js";

/** The shown endpoint with all its settings; undefined if none is shown, null if it could not be loaded. */
let endpoint;

/** Waits between requests for an endpoint that the service is about to disable. Milliseconds. */
const DISABLING_WAITS_MS = [300, 700, 1_000, 2_000, 4_000];

/** Time for which a former secret stays valid after a rotation. Milliseconds. */
const FORMER_SECRET_MS = 24 * 3_600_000;

/** The listed deliveries of the endpoint; undefined until they are loaded. */
let deliveries;

/** Id of the endpoint that the user selected last. It is shown as soon as it is loaded. */
let selectedId;

/** Initializes the view of an endpoint. */
export function initEndpoint() {
  const secretField = getElement("secret-value");
  secretField.addEventListener("focus", () => secretField.select());
  getElement("hide-secret").addEventListener("click", () => {
    hideSecret();
    getElement("endpoint-title").focus();
  });
  initDeliveries({ getEndpoint: () => endpoint, onLoad: refreshHealth });
  clearEndpoint();
}

/**
 * Shows an endpoint with its deliveries. If the endpoint is already shown, keeps the user's input and the shown secret.
 *
 * @param {{ takesFocus?: boolean }} options `takesFocus`: moves the focus to the title
 */
export function showEndpoint({ id, url }, { takesFocus = false } = {}) {
  if (takesFocus) getElement("endpoint-title").focus();
  if (selectedId !== id) hideSecret();
  else if (endpoint !== null) return;
  clearDeliveries();
  clearError("endpoint-alert");
  getElement("endpoint-status").textContent = "";
  getElement("endpoint-title").textContent = url;
  getElement("endpoint-body").replaceChildren(createEmptyText("Loading …"));
  for (const part of ["settings-form", "endpoint-settings"]) getElement(part).replaceChildren();
  endpoint = undefined;
  deliveries = undefined;
  selectedId = id;
  markEndpoint(id);
  return runAction({ alertId: "endpoint-alert" }, async () => {
    try {
      await loadEndpoint(id);
    } catch (error) {
      if (selectedId !== id) return; // the user has selected another endpoint
      endpoint = null;
      getElement("endpoint-body").replaceChildren();
      throw error;
    }
    if (selectedId === id) await showDeliveries();
  });
}

/** Returns the id of the endpoint that is shown; undefined if none is shown. */
export function getShownEndpointId() {
  return selectedId;
}

/** Shows a new endpoint with its signing secret. */
export function showNewEndpoint(newEndpoint, secret) {
  // The secret does not wait for the endpoint, because requests can fail, and the API returns it only once.
  showEndpoint(newEndpoint);
  showSecret(secret, "Use it to verify the signatures of deliveries.");
}

/** Shows that no endpoint is selected, and removes all data of the former endpoint. */
export function clearEndpoint() {
  endpoint = undefined;
  selectedId = undefined;
  deliveries = undefined;
  hideSecret();
  clearDeliveries();
  clearError("endpoint-alert");
  getElement("endpoint-status").textContent = "";
  getElement("endpoint-title").textContent = "Endpoint";
  for (const part of ["settings-form", "endpoint-settings"]) getElement(part).replaceChildren();
  const hint = "Select or create an endpoint to see its settings and deliveries.";
  getElement("endpoint-body").replaceChildren(createEmptyText(hint));
  markEndpoint(undefined);
}

async function loadEndpoint(id) {
  const response = await request("GET", `/webhook-endpoints/${id}`);
  if (selectedId !== id) return;
  endpoint = response.endpoint;
  updateEndpoint(endpoint);
  markEndpoint(id);
  renderEndpoint();
}

/**
 * Shows the endpoint's health for the loaded deliveries. Reloads endpoint and chart if attempts have ended since the
 * last load, or if the user caused the load.
 */
async function refreshHealth(newDeliveries, { isAutomatic }) {
  const isFirst = deliveries === undefined;
  const isChanged = !isFirst && (!isAutomatic || countOutcomes(newDeliveries) !== countOutcomes(deliveries));
  if (isChanged || isFirst) {
    const { id } = endpoint;
    runAction({ alertId: "deliveries-alert" }, () => showOutcomes(id));
  }
  deliveries = newDeliveries;
  renderHealth();
  if (isChanged || isBeingDisabled(endpoint, deliveries)) await reloadEndpoint();
}

/** Loads the endpoint again. While the service is disabling the endpoint, repeats this up to four times. */
async function reloadEndpoint() {
  for (const waitMs of DISABLING_WAITS_MS) {
    const shown = endpoint;
    const { endpoint: reloaded } = await request("GET", `/webhook-endpoints/${shown.id}`, { isAutomatic: true });
    if (endpoint !== shown) return; // the user selected or changed an endpoint in the meantime
    endpoint = reloaded;
    updateEndpoint(endpoint);
    const focused = document.activeElement;
    if (reloaded.status !== shown.status || reloaded.updatedAt !== shown.updatedAt) renderEndpoint();
    else renderHealth();
    if (!focused.isConnected) getElement("endpoint-title").focus();
    if (!isBeingDisabled(endpoint, deliveries)) return;
    await wait(waitMs);
    if (endpoint?.id !== reloaded.id) return;
  }
}

/** Counts the attempts whose outcome is known, and the deliveries that a disabled endpoint has skipped. */
function countOutcomes(list) {
  const attempts = list.flatMap((delivery) => delivery.attempts);
  const skipped = list.filter(({ status }) => status === "skipped");
  return attempts.filter(({ durationMs }) => durationMs !== null).length + skipped.length;
}

function renderHealth() {
  getElement("endpoint-title").replaceChildren(endpoint.url, " ", createStatusTag(getHealth(endpoint)));
  getElement("endpoint-health").replaceChildren(createHealthText(endpoint, deliveries));
}

/** Shows the endpoint. Keeps an open settings form, so that the user's input is not lost. */
function renderEndpoint() {
  const { events, operationalEvents, branchIds, rateLimitPerSecond, formerSecretExpiresAt } = endpoint;
  const branches = branchIds === null ? "all branches of the installation" : branchIds.map(getBranchName).join(", ");
  getElement("endpoint-body").replaceChildren(h("div", { id: "endpoint-health" }), createActions());
  getElement("endpoint-settings").replaceChildren(
    h("h3", {}, "Settings"),
    createFactList([
      ["Endpoint id", createId(endpoint.id)],
      ["Events", createTags([...events, ...operationalEvents])],
      ["Branches", branches],
      ["Custom headers", createTags(endpoint.headerNames)],
      ["Format", endpoint.bodyFormat === "cloudevents" ? "CloudEvents" : "standard"],
      ["Signatures", endpoint.asymmetricSignature ? "HMAC and Ed25519" : "HMAC"],
      ["Order", endpoint.ordering === "appointment" ? "per appointment" : "none"],
      [
        "Former secret",
        formerSecretExpiresAt ? h("span", {}, "valid until ", createTime(formerSecretExpiresAt)) : "none",
      ],
      ["Rate limit", rateLimitPerSecond === null ? "none" : `${rateLimitPerSecond} attempts per second`],
      ["Created", createTime(endpoint.createdAt)],
      ["Changed", createTime(endpoint.updatedAt)],
    ]),
  );
  const form = getElement("settings-form");
  if (endpoint.status === "revoked") form.replaceChildren();
  else if (!form.querySelector("[open]"))
    form.replaceChildren(createSettingsForm(endpoint, (changed) => showChange(changed, "Settings saved.")));
  renderHealth();
}

/**
 * Creates the buttons that the endpoint's status permits. A button acts on this endpoint even if the user selects
 * another endpoint before the action starts.
 */
function createActions() {
  const { id, url, status, disabledReason } = endpoint;
  if (status === "revoked") return "";
  const isActive = status === "active";
  const createActionButton = (text, action, attributes = {}) =>
    createButton(text, {
      ...attributes,
      onclick: ({ currentTarget: button }) =>
        runAction({ button, alertId: "endpoint-alert" }, () => action({ id, url })),
    });
  return h(
    "div",
    { class: "buttons" },
    isActive ? createActionButton("Send test event", sendTest, { class: "primary" }) : "",
    !isActive && disabledReason !== "operator" ? createActionButton("Enable", enable, { class: "primary" }) : "",
    createActionButton("Rotate secret", rotateSecret),
    isActive ? createActionButton("Disable", disable) : "",
    createActionButton("Revoke", revoke, { class: "danger" }),
  );
}

async function sendTest({ id }) {
  const { delivery } = await request("POST", `/webhook-endpoints/${id}/test`);
  if (endpoint?.id !== id) return; // the user has selected another endpoint
  getElement("endpoint-status").textContent = "The test event was queued. The list shows its outcome.";
  showDeliveries({ awaitedId: delivery.id });
}

async function rotateSecret({ id, url }) {
  const question = `The service creates a new secret for ${url}. For 24 hours, deliveries are signed with both secrets.`;
  const title = "Rotate the signing secret?";
  if (!(await confirmAction({ title, text: question, accept: "Rotate secret" }))) return;
  const { endpoint: changed, secret } = await request("POST", `/webhook-endpoints/${id}/rotate-secret`);
  const formerSecretExpiresAt = new Date(Date.parse(changed.updatedAt) + FORMER_SECRET_MS).toISOString();
  const text = `Until ${formatUtc(formerSecretExpiresAt.replace(/\.\d+/, ""))}, deliveries are signed with both the former and the new secret.`;
  showChange({ ...changed, formerSecretExpiresAt }, `The secret was rotated. ${text}`);
  showSecret(secret, `It belongs to ${changed.url}. ${text}`);
}

async function enable({ id }) {
  const { endpoint: changed } = await request("POST", `/webhook-endpoints/${id}/enable`);
  showNewStatus(changed, "The endpoint is active again. Skipped deliveries are sent only if you replay them.");
}

async function disable({ id, url }) {
  const text = `Pending and new deliveries to ${url} are skipped until you enable the endpoint. You can replay them later.`;
  if (!(await confirmAction({ title: "Disable the endpoint?", text, accept: "Disable" }))) return;
  const { endpoint: changed } = await request("POST", `/webhook-endpoints/${id}/disable`);
  showNewStatus(changed, "The endpoint is disabled.");
}

async function revoke({ id, url }) {
  const text = `${url} receives no more deliveries. This cannot be undone.`;
  const title = "Revoke the endpoint for good?";
  if (!(await confirmAction({ title, text, accept: "Revoke", isFinal: true }))) return;
  const { endpoint: changed } = await request("DELETE", `/webhook-endpoints/${id}`);
  showNewStatus(changed, "The endpoint is revoked.");
}

/** Shows the endpoint after a change of its status, and reloads its deliveries. */
function showNewStatus(changed, text) {
  showChange(changed, text);
  if (changed.id === endpoint?.id) showDeliveries();
}

/** Shows the endpoint after a change, and moves the focus to the title if the used button no longer exists. */
function showChange(changed, text) {
  if (changed.id !== endpoint?.id) return updateEndpoint(changed); // the user has selected another endpoint
  endpoint = { ...endpoint, ...changed };
  updateEndpoint(endpoint);
  renderEndpoint();
  if (endpoint.status === "revoked") hideSecret();
  getElement("endpoint-status").textContent = text;
  if (document.activeElement === document.body) getElement("endpoint-title").focus();
}

/**
 * Shows a new signing secret until the user hides it. The API returns a secret only once.
 *
 * @param {string} hint how to use the secret, or how long the former secret stays valid
 */
function showSecret(secret, hint) {
  const field = getElement("secret-value");
  field.value = secret;
  getElement("copy-secret").replaceChildren(createCopyButton("Copy", field));
  getElement("secret-hint").textContent = `Store this secret now. It is not shown again. ${hint}`;
  getElement("secret").hidden = false;
  getElement("secret-title").focus();
}

function hideSecret() {
  getElement("secret-value").value = "";
  getElement("secret-hint").textContent = "";
  getElement("secret").hidden = true;
}
