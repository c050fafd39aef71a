import { randomUUID } from "node:crypto";
import { runInNewContext } from "node:vm";
import { eventually } from "../support/eventually.ts";
import type { Collection, CollectionItem } from "./postman-collection.ts";

/**
 * Sends all requests of a collection in order and runs its scripts, like the runner of an API client.
 *
 * @param values variables that override those of the collection
 * @returns the status of each response, by name of the request
 */
export async function runCollection(
  collection: Collection,
  values: Readonly<Record<string, string>>,
): Promise<Record<string, number>> {
  const variables = new Map(collection.variable.map(({ key, value }) => [key, values[key] ?? value]));
  const statuses: Record<string, number> = {};
  let position: string | null = null;
  for (const item of collection.item.flatMap((folder) => folder.item)) {
    runScripts(item, "prerequest", variables);
    // Reads reflect the earlier writes, also on a busy machine. Deliveries are created some time after their event.
    const response = await eventually("the read models catch up", async () => {
      const isRead = item.request.method === "GET";
      const currentResponse = await sendItem(item, variables, isRead ? position : null);
      const canRetry = currentResponse.status === 503 || (isRead && currentResponse.status === 404);
      return !canRetry && currentResponse;
    });
    position = response.headers.get("X-SERVICE-Log-Position") ?? position;
    const body: unknown = await response.json();
    if (response.ok) runScripts(item, "test", variables, body);
    statuses[item.name] = response.status;
  }
  return statuses;
}

function sendItem(
  { request }: CollectionItem,
  variables: ReadonlyMap<string, string>,
  position: string | null,
): Promise<Response> {
  const insertVariables = (text: string) =>
    text.replace(/\{\{(\$?\w+)\}\}/g, (_, name: string) => {
      const value = name === "$guid" ? randomUUID() : variables.get(name);
      if (!value) throw new Error(`The variable ${name} has no value.`);
      return value;
    });
  const headers = new Headers();
  for (const { key, value, disabled } of request.header) {
    if (!disabled) headers.set(key, insertVariables(value));
  }
  if (!request.auth) headers.set("Authorization", insertVariables("Bearer {{token}}"));
  if (position !== null) headers.set("X-SERVICE-Log-Position", position);
  return fetch(insertVariables(request.url.raw), {
    method: request.method,
    headers,
    ...(request.body && { body: insertVariables(request.body.raw) }),
  });
}

/** Runs scripts with the part of Postman's API that the collection uses. */
function runScripts({ event = [] }: CollectionItem, listen: string, variables: Map<string, string>, body?: unknown) {
  const pm = {
    collectionVariables: { set: (name: string, value: string) => variables.set(name, value) },
    response: { json: () => body },
  };
  for (const { script } of event.filter((candidate) => candidate.listen === listen)) {
    runInNewContext(script.exec.join("\n"), { pm });
  }
}
