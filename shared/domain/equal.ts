/** Returns true if two JSON values are equal. The order of object members is irrelevant. */
export function isEqual(one: unknown, other: unknown): boolean {
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null)
    return Object.is(one, other);
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const [left, right] = [one, other] as Record<string, unknown>[];
  const keys = Object.keys(left ?? {});
  return (
    keys.length === Object.keys(right ?? {}).length &&
    keys.every((key) => Object.hasOwn(right ?? {}, key) && isEqual(left?.[key], right?.[key]))
  );
}
