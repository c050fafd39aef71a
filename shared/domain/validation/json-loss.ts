/**
 * Matches three kinds of tokens of a JSON text: strings, with the colon after a member's name; braces of objects; and
 * numbers that JavaScript may change. Numbers with fewer than 16 digits and fewer than three digits in the exponent
 * never change.
 */
const TOKEN_PATTERN = /("[^"\\]*(?:\\.[^"\\]*)*")\s*(:?)|(-?\d[\d.]{15,}(?:e[+-]?\d+)?|-?\d[\d.]*e[+-]?\d{3,})|[{}]/gi;

/** The first part of a JSON text that `JSON.parse` would lose. */
interface JsonLoss {
  /** Number, as written, that JavaScript cannot store exactly, such as 12345678901234567890 or 1e400. */
  number?: string;
  /** Name that an object contains twice. Only the last value would remain. */
  repeatedName?: string;
}

/**
 * Finds the first part of a JSON text that `JSON.parse` would lose. Reads the text once.
 *
 * @param json valid JSON
 * @returns undefined if nothing is lost
 */
export function findJsonLoss(json: string): JsonLoss | undefined {
  const namesByLevel: Set<string>[] = [];
  for (const [token, text = "", colon, number] of json.matchAll(TOKEN_PATTERN)) {
    if (number !== undefined && !isExactNumber(number)) return { number };
    if (token === "{") namesByLevel.push(new Set());
    else if (token === "}") namesByLevel.pop();
    else if (colon) {
      const name: string = text.includes("\\") ? JSON.parse(text) : text.slice(1, -1);
      const names = namesByLevel.at(-1);
      if (names?.has(name)) return { repeatedName: name };
      names?.add(name);
    }
  }
  return undefined;
}

/** Returns true if a JavaScript number keeps the exact value of a decimal number. */
export function isExactNumber(text: string): boolean {
  return toSignificantDigits(text) === toSignificantDigits(String(Number(text)));
}

/** Converts a number to its significant digits and a power of ten: `-12.50` becomes `125e-1`. Zero becomes `0`. */
function toSignificantDigits(text: string): string {
  const [, integer = "", fraction = "", exponent = "0"] = /^-?(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text) ?? [];
  const digits = integer + fraction;
  const match = /[1-9](?:\d*[1-9])?/.exec(digits);
  if (!match) return "0";
  const trailingZeroCount = digits.length - match.index - match[0].length;
  return `${match[0]}e${Number(exponent) - fraction.length + trailingZeroCount}`;
}
