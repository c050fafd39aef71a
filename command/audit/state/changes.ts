/** One field that is not as it was. A field that was not there, or is no more, has no such side. */
export interface Change {
  /** Such as `status`, `subscription.plan`, `assignments[<id>].active`. */
  path: string;
  before?: unknown;
  after?: unknown;
}

/**
 * What differs between two states, field by field, in the order of the fields. Lists of things with an id are compared
 * by id, other lists as a whole.
 */
export function changesBetween(before: unknown, after: unknown): Change[] {
  return [...compare("", before, after)];
}

function* compare(path: string, before: unknown, after: unknown): Generator<Change> {
  const [was, is] = [fieldsOf(before, after), fieldsOf(after, before)];
  // A whole that comes or goes is told by its parts.
  if ((was && (is || after === undefined)) || (is && before === undefined)) {
    yield* compareFields(path, was ?? new Map(), is ?? new Map());
    return;
  }
  if (same(before, after)) return;
  yield {
    path,
    ...(before === undefined ? {} : { before }),
    ...(after === undefined ? {} : { after }),
  };
}

function* compareFields(
  path: string,
  was: Map<string, unknown>,
  is: Map<string, unknown>,
): Generator<Change> {
  for (const key of new Set([...was.keys(), ...is.keys()])) {
    const inner = path === "" || key.startsWith("[") ? `${path}${key}` : `${path}.${key}`;
    yield* compare(inner, was.get(key), is.get(key));
  }
}

/**
 * The parts of an object or of a list of things with ids; undefined for a value that is compared as a whole.
 *
 * @param other the other side: an empty list is one of things with ids where that is
 */
function fieldsOf(value: unknown, other: unknown): Map<string, unknown> | undefined {
  if (Array.isArray(value) && value.length === 0 && Array.isArray(other)) {
    return fieldsOf(other, undefined) && new Map();
  }
  if (typeof value !== "object" || value === null) return undefined;
  if (!Array.isArray(value)) {
    const fields = Object.entries(value).filter(([, inner]) => inner !== undefined);
    return fields.length === 0 ? undefined : new Map(fields);
  }
  const keyed = value.map((item): [string, unknown] | undefined => {
    const id = typeof item === "object" && item !== null ? (item as { id?: unknown }).id : undefined;
    return typeof id === "string" ? [`[${id}]`, item] : undefined;
  });
  const pairs = keyed.filter((pair) => pair !== undefined);
  return pairs.length === value.length && pairs.length > 0 ? new Map(pairs) : undefined;
}

function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
