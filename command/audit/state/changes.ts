/** A changed field. `before` is absent for an added field, `after` for a removed field. */
export interface Change {
  /** Such as `status`, `subscription.plan`, `assignments[<id>].active`. */
  path: string;
  before?: unknown;
  after?: unknown;
}

/**
 * Returns the fields that differ between two states, in the order of the fields. Lists of objects with ids are
 * compared by id, other lists as a whole.
 */
export function changesBetween(before: unknown, after: unknown): Change[] {
  return [...compare("", before, after)];
}

function* compare(path: string, before: unknown, after: unknown): Generator<Change> {
  const [was, is] = [fieldsOf(before, after), fieldsOf(after, before)];
  // An added or removed object is reported field by field.
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
 * Returns the fields of an object, or the items of a list by id; undefined for a value that is compared as a whole.
 *
 * @param other the other value: an empty list is treated like the other list
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
