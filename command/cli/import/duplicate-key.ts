/** Matches strings, with the colon that follows a key, and the braces of objects. */
const STRING_OR_BRACE_PATTERN = /("[^"\\]*(?:\\.[^"\\]*)*")\s*(:?)|[{}]/g;

/**
 * Finds a key that an object in JSON contains twice. `JSON.parse` would ignore its first value.
 *
 * @param json valid JSON
 */
export function findDuplicateKey(json: string): string | undefined {
  const keysByLevel: Set<string>[] = [];
  for (const [token, text = "", colon] of json.matchAll(STRING_OR_BRACE_PATTERN)) {
    if (token === "{") keysByLevel.push(new Set());
    else if (token === "}") keysByLevel.pop();
    else if (colon) {
      const key: string = JSON.parse(text);
      const keys = keysByLevel.at(-1);
      if (keys?.has(key)) return key;
      keys?.add(key);
    }
  }
  return undefined;
}
