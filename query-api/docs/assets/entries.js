import { formatCurl } from "./curl.js";

/** Matches a row in a table of errors: its statuses, its code and its advice. */
const ERROR_ROW = /^\| (\d{3}(?:, \d{3})*) \| `(\w+)` \| (.*) \|$/gm;

/**
 * Lists the guides, errors, operations and events of an OpenAPI document, in the order of the page.
 *
 * @param api id of the API's section on the page
 * @returns entries with `api`, `group`, `id`, `label`, `title`, the searchable `text`, and a `hint` for the list of
 *   matches; for operations also `curl`
 */
export function listEntries(api, openApi) {
  const { title: hint, description } = openApi.info;
  const guides = description
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const title = section.slice(0, section.indexOf("\n"));
      const text = section.replaceAll(ERROR_ROW, "").toLowerCase();
      return { api, id: toGuideId(title), group: "Guides", label: "GUIDE", title, text, hint };
    });
  const errors = [...description.matchAll(ERROR_ROW)].map(([row, statuses, code, advice]) => ({
    ...{ api, id: toErrorId(code), group: "Errors", label: "ERROR", title: `${statuses} ${code}` },
    ...{ text: row.toLowerCase(), hint: advice.replaceAll("`", "") },
  }));
  const operations = Object.entries(openApi.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      ...{ api, id: operation.operationId, group: operation.tags[0], label: method.toUpperCase(), hint },
      ...{ title: operation.summary, text: collectText(openApi, operation, method, path) },
      curl: formatCurl(openApi, { method, path, operation }),
    })),
  );
  const sortedOperations = openApi.tags.flatMap(({ name }) => operations.filter(({ group }) => group === name));
  const events = Object.entries(openApi.webhooks ?? {}).map(([type, { post }]) => ({
    ...{ api, id: post.operationId, group: "Events", label: "EVENT", hint },
    ...{ title: type, text: collectText(openApi, post, "event", type) },
  }));
  return [...guides, ...errors, ...sortedOperations, ...events];
}

/** Returns the id of a section in the introduction: `Verify a signature` → `guide-verify-a-signature` */
export function toGuideId(title) {
  return `guide-${title.trim().toLowerCase().replaceAll(" ", "-")}`;
}

/** Returns the id of an error. */
export function toErrorId(code) {
  return `error-${code}`;
}

/**
 * Finds the entries that contain every word of the query. Lists guides first, then entries whose title contains every
 * word, then the others. Among these, errors precede operations and events. The title of an operation or event counts as
 * containing its statuses, if the query has other words, too.
 */
export function findEntries(entries, query) {
  const words = query.toLowerCase().split(/\s+/);
  const otherWords = words.filter((word) => !/^[1-5]\d\d$/.test(word));
  const contains = (text, sought = words) => sought.every((word) => text.includes(word));
  const rank = ({ label, title }) => {
    const hasStatuses = !["GUIDE", "ERROR"].includes(label) && otherWords.length > 0;
    const isTitled = contains(title.toLowerCase(), hasStatuses ? otherWords : words);
    if (label === "GUIDE") return isTitled ? 0 : 1;
    return (isTitled ? 2 : 4) + (label === "ERROR" ? 0 : 1);
  };
  return entries.filter(({ text }) => contains(text)).sort((a, b) => rank(a) - rank(b));
}

/** Collects the searchable text of an operation: names, paths, descriptions, error codes and names of fields. */
function collectText(openApi, operation, method, path) {
  const { operationId, summary, description, parameters, requestBody, responses } = operation;
  const words = new Set([operationId, summary, description, method, path]);
  for (const { name } of parameters) words.add(name);
  for (const [status, { description: meaning }] of Object.entries(responses ?? {})) words.add(status).add(meaning);
  collectNames(openApi, [requestBody, responses], words, new Set());
  return [...words].join("\n").toLowerCase();
}

/** Collects the names of fields and the values of enumerations. Follows references to schemas. */
function collectNames(openApi, value, words, visitedNames) {
  if (typeof value !== "object" || value === null) return;
  for (const [key, member] of Object.entries(value)) {
    if (key === "example") continue;
    if (key === "properties") for (const name of Object.keys(member)) words.add(name);
    if (key === "enum") for (const name of member) words.add(String(name));
    if (key === "$ref") collectReferenced(openApi, member, words, visitedNames);
    else collectNames(openApi, member, words, visitedNames);
  }
}

function collectReferenced(openApi, reference, words, visitedNames) {
  const [, name] = /^#\/components\/schemas\/(\w+)$/.exec(reference) ?? [];
  if (!name || visitedNames.has(name)) return;
  visitedNames.add(name);
  collectNames(openApi, openApi.components.schemas[name], words, visitedNames);
}
