import { onClick, runAction, showProgress } from "./actions.js";
import { getClinic, loadSandbox } from "./clinic.js";
import { confirmAction } from "./confirm.js";
import { createFactList, createId, createRow, createTable, createTags, getElement } from "./dom.js";
import { request } from "./session.js";
import { createTime } from "./times.js";

/** Shows the installation at the selected clinic, and the sandbox if the clinic is the application's sandbox. */
export function showInstallation() {
  const { id, slug, currency, locale, branches, installation } = getClinic();
  const coverage = installation.branchIds === null ? "all branches, also future ones" : "only these branches";
  const branchNames = branches.map(({ name, city }) => (city ? `${name}, ${city}` : name));
  getElement("installation-body").replaceChildren(
    createFactList([
      ["Clinic id", createId(id)],
      ["Slug", slug],
      ["Currency and locale", `${currency}, ${locale}`],
      ["Scopes", createTags(installation.scopes)],
      ["Covers", coverage],
      ["Rate limit", `${installation.rateLimitPerMinute} requests per minute`],
    ]),
    createTable(
      "Branches",
      ["Branch", "Id"],
      branches.map((branch, index) => createRow(branchNames[index], [branch.id])),
    ),
  );
  showSandbox();
}

function showSandbox() {
  const { sandbox } = getClinic();
  getElement("sandbox").hidden = sandbox === undefined;
  if (!sandbox) return;
  const { day, resetAt, animals, appointments } = sandbox;
  getElement("sandbox-body").replaceChildren(
    createFactList([
      ["Data of", `${day} (UTC)`],
      ["Last reset", createTime(resetAt)],
      ["Appointments", String(appointments)],
    ]),
    createTable(
      "Animals",
      ["Animal", "Id"],
      animals.map(({ id, name, species }) => createRow(`${name}, ${species}`, [id])),
    ),
  );
}

/** Loads the state of the sandbox again, because appointments may have been created. */
export function reloadSandbox() {
  if (!getClinic()?.sandbox) return;
  return runAction({ alertId: "sandbox-alert" }, async () => {
    const former = JSON.stringify(getClinic().sandbox);
    await loadSandbox();
    // An unchanged table stays in the document, so that it does not lose the focus.
    if (JSON.stringify(getClinic().sandbox) !== former) showSandbox();
  });
}

/** Initializes the button that resets the sandbox. Calls `onReset` after each reset. */
export function initSandbox(onReset) {
  onClick("reset-sandbox", "sandbox-alert", async () => {
    const isConfirmed = await confirmAction({
      title: "Reset the sandbox?",
      text: `All appointments and idempotency keys of ${getClinic().name} are deleted. Endpoints and credentials are kept.`,
      accept: "Reset sandbox",
      isFinal: true,
    });
    if (!isConfirmed) return;
    const status = getElement("sandbox-status");
    await showProgress(status, "Resetting …", () => request("POST", "/sandbox/reset").then(loadSandbox));
    showSandbox();
    status.textContent = "The sandbox has the data of today again.";
    await onReset();
  });
}

/** Removes all data of the former session. */
export function clearInstallation() {
  for (const id of ["installation-body", "sandbox-body", "sandbox-status", "sandbox-alert"])
    getElement(id).replaceChildren();
  getElement("sandbox").hidden = true;
}
