import { countClinics, getClinicName, getSelectedClinicId } from "./clinics.js";
import { getElement, h } from "./dom.js";
import { createNamedId } from "./names.js";
import { describeFilters, toUrlFragment } from "./search.js";
import { splitStreamName } from "./text.js";

/**
 * Shows what the list and the accesses are about, with a link back to the latest events.
 *
 * @param {boolean} isLoading if true, the clinic of the search may still be unknown, so there is no link
 */
export function showTitle(search, isLoading) {
  const { kind, id } = search;
  const isLatest = kind === "latest";
  const kindText = { correlation: "request", stream: splitStreamName(id)[0] }[kind] ?? kind;
  const subjectId = kind === "stream" ? splitStreamName(id)[1] : id;
  const describeSubject = () => (isLatest ? [getClinicName(id)] : [`${kindText} `, createNamedId(subjectId, false)]);
  const filters = describeFilters(search);
  const filterText = filters ? h("span", { class: "filters" }, `, ${filters}`) : "";
  getElement("list-title").replaceChildren(
    isLatest ? "Latest events of " : "Events of ",
    ...describeSubject(),
    filterText,
  );
  const clinicId = getSelectedClinicId();
  getElement("latest-link").hidden = isLatest || clinicId === "" || isLoading;
  getElement("latest-link").href = toUrlFragment({ kind: "latest", id: clinicId });
  getElement("latest-link").textContent =
    countClinics() > 1 ? `Latest events of ${getClinicName(clinicId)}` : "Latest events";
  getElement("accesses-hint").replaceChildren("Who read or exported data of ", ...describeSubject());
}
