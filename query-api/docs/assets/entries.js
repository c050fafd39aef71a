import { formatCurl } from "./curl.js";

/**
 * Lists the guides, operations and events of an OpenAPI document, in the order of the page.
 *
 * @param api id of the API's section on the page
 * @returns entries with `api`, `group`, `id`, `label`, `title` and the searchable `text`; for operations
 *   also `curl`
 */
export function listEntries(api, openApi) {
  const guides = openApi.info.description
    .split(/^## /m)
    .slice(1)
    .map((text) => {
      const title = text.slice(0, text.indexOf("\n"));
      return { api, id: toGuideId(title), group: "Guides", label: "GUIDE", title, text: text.toLowerCase() };
    });
  const operations = Object.entries(openApi.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      ...{ api, id: operation.operationId, group: operation.tags[0], label: method.toUpperCase() },
      ...{ title: operation.summary, text: collectText(openApi, operation, method, path) },
      curl: formatCurl(openApi, { method, path, operation }),
    })),
  );
  const sortedOperations = openApi.tags.flatMap(({ name }) => operations.filter(({ group }) => group === name));
  const events = Object.entries(openApi.webhooks ?? {}).map(([type, { post }]) => ({
    ...{ api, id: post.operationId, group: "Events", label: "EVENT" },
    ...{ title: type, text: collectText(openApi, post, "event", type) },
  }));
  return [...guides, ...sortedOperations, ...events];
}

/** Returns the id of a section in the introduction: `Verify a signature` → `guide-verify-a-signature` */
export function toGuideId(title) {
  return `guide-${title.trim().toLowerCase().replaceAll(" ", "-")}`;
}

/** Returns true if the entry contains every word of the query. */
export function matches({ text }, query) {
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
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
