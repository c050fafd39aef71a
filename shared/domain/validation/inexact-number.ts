/**
 * Matches strings, and captures numbers with at least 16 digits or an exponent of three digits. JavaScript keeps all
 * other numbers.
 */
const STRING_OR_NUMBER_PATTERN = /"[^"\\]*(?:\\.[^"\\]*)*"|(-?\d[\d.]{15,}(?:e[+-]?\d+)?|-?\d[\d.]*e[+-]?\d{3,})/gi;

/**
 * Finds a number that would change if the JSON text is parsed and stored, such as 12345678901234567890 or 1e400.
 *
 * @param json valid JSON
 * @returns the number as written; undefined if all numbers keep their values
 */
export function findInexactNumber(json: string): string | undefined {
  for (const [, number] of json.matchAll(STRING_OR_NUMBER_PATTERN)) {
    if (number !== undefined && !isExactNumber(number)) return number;
  }
  return undefined;
}

/** Returns true if JavaScript keeps the value of a decimal number. */
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
