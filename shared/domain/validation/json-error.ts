const STRING_PATTERN = /"[ !#-[\]-\uffff]*(?:\\(?:["\\/bfnrt]|u[\da-fA-F]{4})[ !#-[\]-\uffff]*)*"/y;
const SCALAR_PATTERN = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/** Kinds of tokens that may start a value: brackets, a string (`"`), or another scalar (`0`). */
const VALUE_KINDS = '{["0';

/**
 * Finds the first token of a text that JSON does not allow. Unlike a message of `JSON.parse`, the result contains
 * nothing of the text.
 *
 * @returns index of the token; the length of the text if its end is missing; undefined if the text is JSON
 */
export function findJsonError(text: string): number | undefined {
  const brackets: string[] = [];
  let allowedKinds = VALUE_KINDS;
  let index = 0;
  for (;;) {
    while (index < text.length && " \t\n\r".includes(text.charAt(index))) index += 1;
    if (index === text.length && allowedKinds === "") return undefined;
    const character = text.charAt(index);
    const kind = character !== "" && '{}[],:"'.includes(character) ? character : "0";
    if (!allowedKinds.includes(kind)) return index;
    if (kind === '"' || kind === "0") {
      const pattern = kind === '"' ? STRING_PATTERN : SCALAR_PATTERN;
      pattern.lastIndex = index;
      if (!pattern.test(text)) return index;
      index = pattern.lastIndex;
    } else index += 1;
    if (kind === "{" || kind === "[") brackets.push(kind);
    else if (kind === "}" || kind === "]") brackets.pop();
    const isInObject = brackets.at(-1) === "{";
    if (kind === "{") allowedKinds = '"}';
    else if (kind === "[") allowedKinds = `${VALUE_KINDS}]`;
    else if (kind === ",") allowedKinds = isInObject ? '"' : VALUE_KINDS;
    else if (kind === ":") allowedKinds = VALUE_KINDS;
    else if (kind === '"' && !allowedKinds.includes("0")) allowedKinds = ":";
    else if (isInObject) allowedKinds = ",}";
    else allowedKinds = brackets.length > 0 ? ",]" : "";
  }
}
