import type { DisclosedAccess, DisclosedActor, Disclosure } from "./disclosure.ts";
import { DISCLOSURE_STYLE } from "./disclosure-style.ts";
import { Html, html } from "./html.ts";

/**
 * Renders a disclosure as an HTML document for screen and print. The document has no scripts and loads no other files.
 * Times are in the clinic's time zone and in UTC.
 */
export function renderDisclosure(disclosure: Disclosure): string {
  const { clinic, customer, createdAt, createdBy, id, limits } = disclosure;
  const formatTime = createTimeFormatter(clinic.timezone);
  const title = `Personal data of ${customer.fullName}`;
  const document = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${title}</title>
<style>${new Html(DISCLOSURE_STYLE)}</style>
</head>
<body>
<header>
<h1>${title}</h1>
<p>Information under Articles 15 and 20 of the General Data Protection Regulation (GDPR)</p>
${renderFacts([
  ["Clinic", `${clinic.name} (${clinic.id})`],
  ["Created", formatTime(createdAt)],
  ["Created by", formatActor(createdBy)],
  ["Disclosure", id],
])}
</header>
<main>
${renderCustomer(disclosure)}
${renderRecords(disclosure, formatTime)}
${renderRecipients(disclosure, formatTime)}
${renderChanges(disclosure, formatTime)}
<section><h2>Limits of this document</h2><ul>${limits.map((limit) => html`<li>${limit}</li>`)}</ul></section>
</main>
</body>
</html>
`;
  return document.text;
}

type FormatTime = (instant: string) => Html;

function createTimeFormatter(timeZone: string): FormatTime {
  const date = { year: "numeric", month: "2-digit", day: "2-digit" } as const;
  const time = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" } as const;
  const formatter = new Intl.DateTimeFormat("en", { timeZone, ...date, ...time });
  return (instant) => {
    const parts = Object.fromEntries(
      formatter.formatToParts(new Date(instant)).map(({ type, value }) => [type, value]),
    );
    const local = `${parts.year}-${parts.month}-${parts.day} ${parts.hour}:${parts.minute}:${parts.second} ${timeZone}`;
    const utc = `${instant.slice(0, 19).replace("T", " ")} UTC`;
    return html`<time datetime="${instant}">${local} <small>${utc}</small></time>`;
  };
}

function renderCustomer({ customer, animals }: Disclosure): Html {
  const { id, fullName, phone, email, city, erasedCategories } = customer;
  const erasure =
    erasedCategories.length === 0
      ? ""
      : html`<p class="note">Erased data: ${erasedCategories.join(", ")}. The document shows neutral values instead.</p>`;
  const animalRows = animals.map(({ name, species, breed, sex, birthDate, microchip, weightKg, id: animalId }) => [
    ...[name, species, breed, sex, birthDate, microchip].map(toText),
    ...[weightKg === null ? null : `${weightKg} kg`, animalId],
  ]);
  const animalTitles = ["Name", "Species", "Breed", "Sex", "Born", "Microchip", "Weight", "Id"];
  return html`<section><h2>Person</h2>${erasure}${renderFacts([
    ...([
      ["Name", fullName],
      ["Telephone", phone],
      ["Email", email],
      ["City", city],
      ["Id", id],
    ] as const),
  ])}</section>
<section><h2>Animals</h2>${renderTable("Animals", animalTitles, animalRows)}</section>`;
}

function renderRecords({ appointments, queueTickets, animals, consents }: Disclosure, formatTime: FormatTime): Html {
  const animalNames = new Map(animals.map(({ id, name }) => [id, name]));
  const getAnimalName = (id: string | null) => (id === null ? null : (animalNames.get(id) ?? id));
  const appointmentRows = appointments.map((appointment) => {
    const { scheduledAt, durationMinutes, status, reason, notes, animalId, application, id } = appointment;
    const requestedBy = application === null ? "clinic" : (application.name ?? application.id);
    const texts = [toText(reason), toText(notes)];
    const cells = [formatTime(scheduledAt), `${durationMinutes} min`, toWords(status), toText(getAnimalName(animalId))];
    return [...cells, ...texts, requestedBy, id];
  });
  const appointmentTitles = ["Time", "Duration", "Status", "Animal", "Reason", "Notes", "Requested by", "Id"];
  const ticketRows = queueTickets.map(({ date, number, status, animalId, notes, id }) => [
    ...[date, number, toWords(status), toText(getAnimalName(animalId)), toText(notes), id],
  ]);
  const ticketTitles = ["Date", "Number", "Status", "Animal", "Notes", "Id"];
  const consentRows = consents.map(({ grantedAt, animalId, application, covers }) => [
    ...[formatTime(grantedAt), toText(getAnimalName(animalId)), application.name ?? application.id, toWords(covers)],
  ]);
  const consentTitles = ["Granted", "Animal", "Application", "Covers"];
  return html`<section><h2>Consents</h2>${renderTable("Consents", consentTitles, consentRows)}</section>
<section><h2>Appointments</h2>${renderTable("Appointments", appointmentTitles, appointmentRows)}</section>
<section><h2>Queue tickets</h2>${renderTable("Queue tickets", ticketTitles, ticketRows)}</section>`;
}

const EXTENT_TEXTS: Record<DisclosedAccess["extent"], string> = {
  individual: "data of this person",
  export: "export that contains data of this person",
  possible: "possibly data of this person",
};

function renderRecipients({ accesses, deliveries }: Disclosure, formatTime: FormatTime): Html {
  const accessRows = accesses.map(({ at, actor, action, extent, query }) => [
    ...[formatTime(at), formatActor(actor), action, EXTENT_TEXTS[extent], toText(formatFields(query))],
  ]);
  const deliveryRows = deliveries.map((delivery) => {
    const { createdAt, application, endpointOrigin, type, status, appointmentId, lastAttempt } = delivery;
    const responseText = lastAttempt?.statusCode ? `${status}, status code ${lastAttempt.statusCode}` : status;
    const recipient = toText(`${application.name ?? application.id}\n${endpointOrigin ?? "unknown endpoint"}`);
    return [formatTime(createdAt), recipient, type, responseText, appointmentId];
  });
  return html`<section><h2>Who saw the data</h2>
${renderTable("Recorded accesses", ["Time", "Who", "Action", "Extent", "Query"], accessRows)}</section>
<section><h2>Who received the data</h2>
${renderTable("Webhook deliveries", ["Time", "Application", "Type", "Outcome", "Appointment"], deliveryRows)}</section>`;
}

function renderChanges({ changes }: Disclosure, formatTime: FormatTime): Html {
  const rows = changes.map(({ occurredAt, type, stream, revision, actor, data }) => [
    ...[formatTime(occurredAt), toWords(type), formatActor(actor)],
    ...[toText(formatFields(data)), toText(`${stream} @ ${revision}`)],
  ]);
  const titles = ["Time", "Event", "By", "Recorded data", "Stream and revision"];
  return html`<section><h2>All recorded changes</h2>${renderTable("Recorded changes", titles, rows)}</section>`;
}

function formatActor({ type, id, name, note }: DisclosedActor): string {
  const idText = name === null ? id : `${name} (${id})`;
  return note === null ? `${type} ${idText}` : `${type} ${idText}, ${note}`;
}

/** Converts a name in camelCase or snake_case to words: `AppointmentConfirmed` → `Appointment confirmed`. */
function toWords(name: string): string {
  const words = name.replaceAll("_", " ").replaceAll(/([a-z])([A-Z])/g, "$1 $2");
  return words.charAt(0) + words.slice(1).toLowerCase();
}

/** Marks text that can contain long words, so that the words are broken to fit the column. */
function toText(text: string | null): Html | null {
  return text === null ? null : html`<span class="text">${text}</span>`;
}

function formatFields(fields: Readonly<Record<string, unknown>>): string {
  const entries = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined);
  return entries
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join("\n");
}

function renderFacts(facts: readonly (readonly [name: string, value: Html | string | null])[]): Html {
  return html`<dl>${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${value ?? "none"}</dd>`)}</dl>`;
}

function renderTable(caption: string, titles: readonly string[], rows: readonly (Html | string | null)[][]): Html {
  if (rows.length === 0) return html`<p>None.</p>`;
  const head = titles.map((title) => html`<th scope="col">${title}</th>`);
  const body = rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell ?? "–"}</td>`)}</tr>\n`);
  return html`<div class="scroll" role="region" tabindex="0" aria-label="${caption}"><table><thead><tr>${head}</tr></thead>
<tbody>${body}</tbody></table></div>`;
}
