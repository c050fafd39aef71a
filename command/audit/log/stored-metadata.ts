import type { Instant } from "../../../shared/domain/time/rfc3339.ts";

/** Members of an audit event that come from the metadata of the stored event. */
export interface NamedMetadata {
  /** Time of the event, as reported by the program that wrote the event. */
  occurredAt: Instant | null;
  /** Person or program whose action caused the event. */
  actor: { type: string; id: string; note?: string | undefined } | null;
  clinicId: string | null;
  environment: string | null;
  /** Id of the request that directly or indirectly caused the event. */
  correlationId: string | null;
  /** Id of the request or event that directly caused the event. */
  causationId: string | null;
  schemaVersion: number | null;
}

const isString = (value: unknown): value is string => typeof value === "string";
const isTime = (value: unknown) => isString(value) && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value);
const isActor = (value: unknown) =>
  isObject(value) && isString(value.type) && isString(value.id) && (value.note === undefined || isString(value.note));

/** Members of stored metadata that an audit event names, and the form that each of them must have. */
const NAMED_MEMBERS: { [Name in keyof NamedMetadata]: [storedName: string, hasForm: (value: unknown) => boolean] } = {
  occurredAt: ["occurredAt", isTime],
  actor: ["actor", isActor],
  clinicId: ["clinicId", isString],
  environment: ["environment", isString],
  correlationId: ["$correlationId", isString],
  causationId: ["$causationId", isString],
  schemaVersion: ["schemaVersion", (value) => typeof value === "number"],
};

/** Members that describe the request instead of the event. */
const OMITTED_MEMBERS = ["traceparent"];

/**
 * Separates the metadata of a stored event into the members that audit events name and all other metadata. A named
 * member that is missing or has another form is null; in the second case, the value is among the other metadata.
 *
 * Exports and leaves of the tree contain the result, so every release must return the same for the same metadata. The
 * rules therefore do not depend on the event catalog, and they must never change.
 *
 * @param metadata any JSON value; bytes if it is not JSON; undefined if the event has no metadata
 */
export function separateMetadata(metadata: unknown): { namedMetadata: NamedMetadata; otherMetadata: unknown } {
  const members = new Map(isObject(metadata) ? Object.entries(metadata) : []);
  const namedEntries = Object.entries(NAMED_MEMBERS).map(([name, [storedName, hasForm]]) => {
    const value = members.get(storedName) ?? null;
    const isNamed = value === null || hasForm(value);
    if (isNamed) members.delete(storedName);
    return [name, isNamed ? value : null];
  });
  for (const name of OMITTED_MEMBERS) members.delete(name);
  const namedMetadata = Object.fromEntries(namedEntries) as NamedMetadata;
  if (!isObject(metadata)) return { namedMetadata, otherMetadata: metadata ?? undefined };
  return { namedMetadata, otherMetadata: members.size > 0 ? Object.fromEntries(members) : undefined };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}
