/** Returns true if two JSON values are equal. The order of object members is irrelevant. */
export function isEqual(left: unknown, right: unknown): boolean {
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null)
    return Object.is(left, right);
  if (Array.isArray(left) !== Array.isArray(right)) return false;
  const [leftMembers, rightMembers] = [left, right] as Record<string, unknown>[];
  const keys = Object.keys(leftMembers ?? {});
  return (
    keys.length === Object.keys(rightMembers ?? {}).length &&
    keys.every((key) => Object.hasOwn(rightMembers ?? {}, key) && isEqual(leftMembers?.[key], rightMembers?.[key]))
  );
}
