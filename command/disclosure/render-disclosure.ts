import type { Disclosure } from "./collect-disclosure.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * Renders a disclosure as an HTML document for screen and print. The document has no scripts and loads no other files.
 * Times are in the clinic's time zone and in UTC. Titles of fields are their property names, converted to words.
 */
export function renderDisclosure(disclosure: Disclosure): string {
  const { clinic, customer, animals, appointments, queueTickets, consents, accesses, deliveries, changes } = disclosure;
  const { erasedCategories, ...details } = customer;
  const title = `Personal data of ${customer.fullName}`;
  const cells = createCellRenderer(clinic.timezone, new Map(animals.map(({ id, name }) => [id, name])));
  const table = (caption: string, records: readonly Fields[], columns?: readonly string[]) =>
    html`<h2>${caption}</h2>${renderTable(caption, records, cells, columns)}`;
  const facts = (fields: Fields) =>
    html`<dl>${Object.entries(fields).map(([name, value]) => html`<dt>${toWords(name)}</dt><dd>${cells(name, value)}</dd>`)}</dl>`;
  const accessColumns = ["at", "actor", "action", "extent", "query"];
  const deliveryColumns = [
    "createdAt",
    "application",
    "endpointOrigin",
    "type",
    "status",
    "lastAttempt",
    "appointmentId",
  ];
  const changeColumns = ["occurredAt", "type", "actor", "data", "stream", "revision"];
  const { id, createdAt, createdBy, limits } = disclosure;
  return html`<!doctype html>
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
${facts({ clinic: `${clinic.name} (${clinic.id})`, createdAt, createdBy, disclosure: id })}
</header>
<main>
<h2>Person</h2>
${erasedCategories.length > 0 && html`<p class="note">Erased data: ${erasedCategories.join(", ")}. The document shows neutral values instead.</p>`}
${facts(details)}
${table("Animals", animals)}
${table("Consents", consents)}
${table("Appointments", appointments)}
${table("Queue tickets", queueTickets)}
${table("Who saw the data", accesses, accessColumns)}
${table("Who received the data", deliveries, deliveryColumns)}
${table("All recorded changes", changes, changeColumns)}
<h2>Limits of this document</h2><ul>${limits.map((limit) => html`<li>${limit}</li>`)}</ul>
</main>
</body>
</html>
`.text;
}

type RenderCell = (name: string, value: unknown) => Html | string;

/** Properties whose values are codes in snake_case or CamelCase. These values are displayed as words. */
const CODES = new Set(["status", "covers", "type"]);

const EXTENT_TEXTS: Record<string, string> = {
  individual: "data of this person",
  export: "export that contains data of this person",
  possible: "possibly data of this person",
};

/** Creates a function that renders a value, depending on the name of its property. */
function createCellRenderer(timeZone: string, animalNames: ReadonlyMap<string, string>): RenderCell {
  const date = { year: "numeric", month: "2-digit", day: "2-digit" } as const;
  const time = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" } as const;
  // The Swedish format is that of ISO 8601.
  const formatter = new Intl.DateTimeFormat("sv", { timeZone, ...date, ...time });
  const renderTime = (instant: string) => {
    const utc = `${instant.slice(0, 19).replace("T", " ")} UTC`;
    const local = `${formatter.format(new Date(instant))} ${timeZone}`;
    return html`<time datetime="${instant}">${local} <small>${utc}</small></time>`;
  };
  return (name, value) => {
    if (value === null || value === undefined) return "–";
    if (typeof value === "object") return toText(describeObject(value as Fields));
    const text = String(value);
    if (name === "at" || name.endsWith("At")) return renderTime(text);
    if (name === "animalId") return toText(animalNames.get(text) ?? text);
    if (name === "extent") return EXTENT_TEXTS[text] ?? text;
    return CODES.has(name) && !text.includes(".") ? toWords(text) : toText(text);
  };
}

/** Describes an actor or an application by its name, and any other object by its properties. */
function describeObject({ id, name, type, note, ...fields }: Fields): string {
  if (typeof id === "string" && name !== undefined)
    return [[type, name ?? id, typeof name === "string" && type && `(${id})`].filter(Boolean).join(" "), note]
      .filter(Boolean)
      .join(", ");
  return Object.entries({ id, name, type, note, ...fields })
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([member, value]) => `${member}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join("\n");
}

/** Renders records as a table. By default, the columns are the properties of the first record, with `id` last. */
function renderTable(
  caption: string,
  records: readonly Fields[],
  renderCell: RenderCell,
  columns: readonly string[] = Object.keys(records[0] ?? {}).sort((a, b) => Number(a === "id") - Number(b === "id")),
): Html {
  if (records.length === 0) return html`<p>None.</p>`;
  const head = columns.map((name) => html`<th scope="col">${toWords(name).replace(/ id$/, "")}</th>`);
  const body = records.map(
    (record) => html`<tr>${columns.map((name) => html`<td>${renderCell(name, record[name])}</td>`)}</tr>\n`,
  );
  return html`<div class="scroll" role="region" tabindex="0" aria-label="${caption}"><table><thead><tr>${head}</tr></thead>
<tbody>${body}</tbody></table></div>`;
}

/** Converts a name in camelCase or snake_case to words: `AppointmentConfirmed` → `Appointment confirmed`. */
function toWords(name: string): string {
  const words = name.replaceAll("_", " ").replaceAll(/([a-z])([A-Z])/g, "$1 $2");
  return words.charAt(0).toUpperCase() + words.slice(1).toLowerCase();
}

/** Wraps text in an element whose style breaks long words to fit the column. */
function toText(text: string): Html {
  return html`<span class="text">${text}</span>`;
}

class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Value = Html | string | false | readonly Html[];

/** Creates HTML from a template. Values are escaped, except {@link Html}. */
function html(strings: TemplateStringsArray, ...values: Value[]): Html {
  return new Html(strings.reduce((text, part, index) => text + toHtmlText(values[index - 1] ?? false) + part));
}

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

function toHtmlText(value: Value): string {
  if (value === false) return "";
  if (value instanceof Html) return value.text;
  if (typeof value === "string") return value.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
  return value.map(toHtmlText).join("");
}

/** Style sheet of the printable disclosure. It contains no characters that need escaping in an HTML style element. */
const DISCLOSURE_STYLE = `
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { max-width: 70rem; margin: 0 auto; padding: 1.5rem; color: #17292b; background: #fff;
  font: 1rem / 1.5 system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
h1 { margin: 0; font-size: 1.6rem; }
h2 { margin: 2rem 0 0.5rem; font-size: 1.2rem; border-bottom: 2px solid #0f5c63; }
p { margin: 0.4rem 0; }
small { display: block; color: #4c6265; font-size: 0.85em; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.1rem 1rem; margin: 0.75rem 0 0; }
dt { color: #4c6265; }
dd { margin: 0; overflow-wrap: anywhere; }
.note { padding: 0.5rem 0.75rem; border-left: 4px solid #4c6265; background: #eef3f3; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 0.85rem; }
th, td { padding: 0.3rem 0.6rem 0.3rem 0; border-bottom: 1px solid #b9c6c8; text-align: left; vertical-align: top; }
td { overflow-wrap: break-word; white-space: pre-line; }
.text { overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  body { padding: 0.75rem; }
  dl { grid-template-columns: minmax(0, 1fr); }
  table { min-width: 44rem; }
}
@page { size: A4; margin: 15mm; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  .scroll { overflow: visible; }
  table { font-size: 8pt; }
  thead { display: table-header-group; }
  tr { break-inside: avoid; }
  h2 { break-after: avoid; }
}
`;
