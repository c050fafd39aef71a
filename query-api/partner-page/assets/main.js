import { onSubmit, runAction, showError } from "./actions.js";
import { clearAppointments, initAppointments, prepareAppointments, showAppointments } from "./appointments.js";
import { getClinic, loadInstallations, openClinic } from "./clinic.js";
import { closeDialog } from "./confirm.js";
import { applyFiltersOfUrl, filterByAppointment, reloadDeliveries } from "./deliveries.js";
import { getElement, isNarrow } from "./dom.js";
import { clearEndpoint, getShownEndpointId, initEndpoint, showEndpoint, showNewEndpoint } from "./endpoint.js";
import {
  clearEndpoints,
  findEndpoint,
  getFirstEndpoint,
  initEndpoints,
  searchAppointment,
  showEndpoints,
} from "./endpoints.js";
import { showFilters } from "./filters.js";
import { clearInstallation, initSandbox, reloadSandbox, showInstallation } from "./installation.js";
import { changeRoute, readRoute } from "./route.js";
import {
  endSession,
  getClinicId,
  getEnvironment,
  restoreSession,
  STORAGE_KEY,
  setClinicId,
  signOut,
  startSession,
} from "./session.js";
import { showReason } from "./sign-out.js";
import { initTabs } from "./tabs.js";

const NO_INSTALLATION_TEXT =
  "No clinic has approved this application yet. A clinic administrator approves the installation. Then sign in again.";

const TABS = { webhooks: "Webhooks", appointments: "Appointments", installation: "Clinic", requests: "Requests" };

const tabs = initTabs("tabs", TABS, showTab);

initEndpoint();
initEndpoints({
  onSelect(endpoint) {
    changeRoute({ endpoint: endpoint.id });
    showEndpoint(endpoint, { takesFocus: isNarrow() });
  },
  onCreate(endpoint, secret) {
    changeRoute({ endpoint: endpoint.id });
    showNewEndpoint(endpoint, secret);
  },
});
initAppointments(async (appointmentId) => {
  filterByAppointment(appointmentId);
  tabs.show("webhooks");
  const tab = getElement("tab-webhooks");
  tab.focus();
  await findDeliveries();
  if (document.activeElement === tab) getElement("deliveries-title").focus();
});
getElement("refresh-deliveries").addEventListener("click", findDeliveries);
getElement("delivery-filters").addEventListener("change", ({ target, currentTarget: form }) => {
  if ([form, getElement("filter-appointment")].includes(target)) findDeliveries();
});
initSandbox(async () => prepareAppointments());

/**
 * Searches all endpoints for deliveries about the appointment in the filters. Shows an endpoint with such deliveries.
 */
function findDeliveries() {
  return runAction({ alertId: "endpoints-alert" }, async () => {
    const foundIds = await searchAppointment(readRoute().appointmentId);
    if (foundIds.length === 0 || foundIds.includes(getShownEndpointId())) return;
    // Another endpoint would replace the form, the secret or what the open dialog is about.
    if (document.querySelector("#settings-form [open], #secret:not([hidden]), dialog[open]")) return;
    // The Back button skips the endpoint without such deliveries. Otherwise, going back would search again.
    changeRoute({ endpoint: foundIds[0] }, { isNewEntry: false });
    await showEndpoint(findEndpoint(foundIds[0]));
  });
}

function showTab(name) {
  if (!getClinic()) return;
  changeRoute({ tab: name });
  if (name === "appointments") showAppointments();
  if (name === "webhooks") reloadDeliveries();
  if (name === "installation") reloadSandbox();
}

async function signIn() {
  const secretField = getElement("client-secret");
  const credentials = {
    environment: document.querySelector('[name="environment"]:checked').value,
    clientId: getElement("client-id").value.trim(),
    clientSecret: secretField.value.trim(),
  };
  getElement("sign-in-status").textContent = "Signing in …";
  try {
    await startSession(credentials);
    secretField.value = "";
    await showDesk();
  } catch (error) {
    endSession();
    throw error;
  } finally {
    getElement("sign-in-status").textContent = "";
  }
}

async function showDesk() {
  const clinicId = await loadInstallations(readRoute().clinic);
  const environment = getEnvironment();
  const badge = getElement("environment");
  badge.textContent = environment === "production" ? "Production" : "Sandbox";
  badge.className = `environment ${environment}`;
  for (const id of ["environment", "sign-out", "desk"]) getElement(id).hidden = false;
  getElement("sign-in").hidden = true;
  getElement("sections").hidden = true;
  if (clinicId === undefined) {
    getElement("clinic-name").textContent = "No clinic";
    showError("clinic-alert", { message: NO_INSTALLATION_TEXT });
  }
  const loading = clinicId === undefined ? undefined : showClinic(clinicId);
  // The heading takes the focus before everything is loaded, so that the focus does not leave what the user has chosen.
  getElement("clinic-name").focus();
  await loading;
}

/** Shows a clinic with the tab, the endpoint and the filters in the URL. Removes the data of the former clinic. */
async function showClinic(clinicId) {
  setClinicId(clinicId);
  clearSections();
  // Everything else needs the clinic.
  getElement("sections").hidden = true;
  await runAction({ alertId: "clinic-alert", isRepeatable: true }, async () => {
    await openClinic();
    const tab = Object.hasOwn(TABS, readRoute().tab) ? readRoute().tab : tabs.getShownTab();
    changeRoute({ clinic: clinicId, tab }, { isNewEntry: false });
    getElement("sections").hidden = false;
    showFilters();
    prepareAppointments();
    showInstallation();
    tabs.show(tab);
    await showEndpoints();
    const endpoint = findEndpoint(readRoute().endpoint) ?? (isNarrow() ? undefined : getFirstEndpoint());
    if (endpoint) await showEndpoint(endpoint);
    await findDeliveries();
  });
}

/** Shows what the URL names after the user went back or forward, or changed the fragment. */
function followRoute() {
  if (!getClinicId()) return;
  const { clinic, tab, endpoint: endpointId } = readRoute();
  if (clinic && clinic !== getClinicId()) return showClinic(clinic);
  if (!getClinic()) return; // the clinic is loading
  tabs.show(Object.hasOwn(TABS, tab) ? tab : "webhooks");
  findDeliveries();
  const endpoint = findEndpoint(endpointId);
  if (endpoint && endpoint.id !== getShownEndpointId()) {
    showFilters();
    return showEndpoint(endpoint);
  }
  return applyFiltersOfUrl();
}

function clearSections() {
  closeDialog();
  clearEndpoint();
  clearEndpoints();
  clearAppointments();
  clearInstallation();
}

onSubmit("sign-in-form", "sign-in-alert", signIn);
getElement("sign-out").addEventListener("click", () => {
  history.replaceState(null, "", location.pathname);
  signOut("");
});
getElement("clinic").addEventListener("change", ({ target }) => {
  changeRoute({ clinic: target.value, endpoint: undefined });
  showClinic(target.value);
});
addEventListener("popstate", followRoute);
// A notice is about the latest action, and ends with the next one. The listener runs before those of the buttons.
addEventListener(
  "click",
  ({ target }) => {
    if (!target.closest("button, summary")) return;
    for (const id of ["endpoint", "appointment", "slots", "sandbox"]) getElement(`${id}-status`).textContent = "";
  },
  { capture: true },
);
// The browser can keep a page that the user has left, and show it again with the Back button.
addEventListener("pagehide", ({ persisted }) => {
  if (!persisted) return;
  endSession({ isStored: true });
  document.body.replaceChildren();
});
addEventListener("pageshow", ({ persisted }) => persisted && location.reload());
showReason([STORAGE_KEY], "client-id");
if (sessionStorage.getItem(STORAGE_KEY))
  runAction({ alertId: "sign-in-alert" }, () => {
    restoreSession();
    return showDesk();
  });
