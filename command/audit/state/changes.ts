/** A changed field. `before` is absent for an added field. `after` is absent for a removed field. */
export interface Change {
  /** Path of the field, such as `status`, `subscription.plan` or `assignments[<id>].active`. */
  path: string;
  before?: unknown;
  after?: unknown;
}

/**
 * Returns the fields that differ between two states, in the order of the fields. Lists of objects with ids are compared
 * by id. Other lists are compared as a whole.
 */
export function findChanges(stateBefore: unknown, stateAfter: unknown): Change[] {
  return [...compareValues("", stateBefore, stateAfter)];
}

type Fields = Map<string, unknown>;

function* compareValues(path: string, valueBefore: unknown, valueAfter: unknown): Generator<Change> {
  const [fieldsBefore, fieldsAfter] = [toFields(valueBefore, valueAfter), toFields(valueAfter, valueBefore)];
  // If an object is added or removed, each of its fields is a change.
  if ((fieldsBefore && (fieldsAfter || valueAfter === undefined)) || (fieldsAfter && valueBefore === undefined)) {
    yield* compareFields(path, fieldsBefore ?? new Map(), fieldsAfter ?? new Map());
    return;
  }
  if (JSON.stringify(valueBefore) === JSON.stringify(valueAfter)) return;
  yield {
    path,
    ...(valueBefore === undefined ? {} : { before: valueBefore }),
    ...(valueAfter === undefined ? {} : { after: valueAfter }),
  };
}

function* compareFields(path: string, fieldsBefore: Fields, fieldsAfter: Fields): Generator<Change> {
  for (const key of new Set([...fieldsBefore.keys(), ...fieldsAfter.keys()])) {
    const innerPath = path === "" || key.startsWith("[") ? `${path}${key}` : `${path}.${key}`;
    yield* compareValues(innerPath, fieldsBefore.get(key), fieldsAfter.get(key));
  }
}

/**
 * Returns the fields of an object, or the items of a list by id. Returns undefined for a value without fields or ids,
 * which is compared as a whole.
 *
 * @param counterpart the value to compare with; if `value` is an empty list, the items of `counterpart` decide whether
 *   the lists are compared by id
 */
function toFields(value: unknown, counterpart: unknown): Fields | undefined {
  if (Array.isArray(value) && value.length === 0 && Array.isArray(counterpart)) {
    return toFields(counterpart, undefined) && new Map();
  }
  if (typeof value !== "object" || value === null) return undefined;
  if (!Array.isArray(value)) {
    const fields = Object.entries(value).filter(([, fieldValue]) => fieldValue !== undefined);
    return fields.length === 0 ? undefined : new Map(fields);
  }
  const keyedItems = value.map((item): [string, unknown] | undefined => {
    const id = typeof item === "object" && item !== null ? (item as { id?: unknown }).id : undefined;
    return typeof id === "string" ? [`[${id}]`, item] : undefined;
  });
  const pairs = keyedItems.filter((pair) => pair !== undefined);
  return pairs.length === value.length && pairs.length > 0 ? new Map(pairs) : undefined;
}
