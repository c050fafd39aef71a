import { clearError, onSubmit, runAction, showError } from "./actions.js";
import { clearAppointments, initAppointments, prepareAppointments, showAppointments } from "./appointments.js";
import { clearClinics, loadInstallations, openClinic } from "./clinic.js";
import { closeDialog } from "./confirm.js";
import { filterByAppointment, reloadDeliveries } from "./deliveries.js";
import { getElement } from "./dom.js";
import { clearEndpoint, initEndpoint, showEndpoint, showNewEndpoint } from "./endpoint.js";
import { clearEndpoints, getFirstEndpoint, initEndpoints, showEndpoints } from "./endpoints.js";
import { clearInstallation, initSandbox, reloadSandbox, showInstallation } from "./installation.js";
import { addRequest, clearRequests } from "./requests.js";
import { endSession, getClinicId, getEnvironment, setClinicId, setSessionListeners, startSession } from "./session.js";
import { initTabs } from "./tabs.js";
import { clearUsage, showUsage } from "./usage.js";

const NO_INSTALLATION_TEXT =
  "No clinic has approved this application yet. A clinic administrator approves the installation. Then sign in again.";

/** Returns true if the details are below the list instead of next to it. */
const isNarrow = () => matchMedia("(max-width: 64rem)").matches;

const tabs = initTabs(["webhooks", "appointments", "installation", "requests"], showTab);

setSessionListeners({
  onResponse(exchange) {
    showUsage(exchange);
    addRequest(exchange);
  },
  onSessionEnd: (reason) => signOut(reason),
});
initEndpoint();
initEndpoints({
  onSelect: (endpoint) => showEndpoint(endpoint, { takesFocus: isNarrow() }),
  onCreate: showNewEndpoint,
});
initAppointments((appointmentId) => {
  filterByAppointment(appointmentId);
  tabs.show("webhooks");
  getElement("tab-webhooks").focus();
});
initSandbox(async () => prepareAppointments());

function showTab(name) {
  if (!getClinicId()) return;
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
  const clinicId = await loadInstallations();
  const environment = getEnvironment();
  const badge = getElement("environment");
  badge.textContent = environment === "production" ? "Production" : "Sandbox";
  badge.className = `environment ${environment}`;
  for (const id of ["environment", "sign-out", "desk"]) getElement(id).hidden = false;
  getElement("sign-in").hidden = true;
  getElement("sections").hidden = clinicId === undefined;
  if (clinicId === undefined) getElement("clinic-name").textContent = "No clinic";
  else await showClinic(clinicId);
  if (clinicId === undefined) showError("clinic-alert", { message: NO_INSTALLATION_TEXT });
  getElement("clinic-name").focus();
}

/** Shows a clinic, and removes what was shown of another clinic. */
async function showClinic(clinicId) {
  setClinicId(clinicId);
  clearSections();
  await runAction({ alertId: "clinic-alert" }, async () => {
    await openClinic();
    prepareAppointments();
    showInstallation();
    tabs.show(tabs.getShownTab());
    await showEndpoints();
    const endpoint = getFirstEndpoint();
    if (endpoint && !isNarrow()) await showEndpoint(endpoint);
  });
}

function clearSections() {
  clearEndpoint();
  clearEndpoints();
  clearAppointments();
  clearInstallation();
}

/** Ends the session and removes all its data from the page. */
function signOut(reason = "") {
  endSession();
  closeDialog();
  clearSections();
  clearClinics();
  clearRequests();
  clearUsage();
  clearError("clinic-alert");
  tabs.show("webhooks");
  for (const id of ["environment", "sign-out", "desk"]) getElement(id).hidden = true;
  getElement("sign-in").hidden = false;
  getElement("client-id").value = "";
  getElement("client-secret").value = "";
  getElement("sign-in-alert").textContent = reason;
  getElement("client-id").focus();
}

onSubmit("sign-in-form", "sign-in-alert", signIn);
getElement("sign-out").addEventListener("click", () => signOut());
getElement("clinic").addEventListener("change", ({ target }) => showClinic(target.value));
// The browser can keep a page that the user has left, and show it again with the Back button.
addEventListener("pagehide", () => signOut());
