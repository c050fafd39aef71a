/** Formats a number of things, such as `1 delivery` or `2 deliveries`. */
export function formatCount(count: number | bigint, noun: string): string {
  if (Number(count) === 1) return `1 ${noun}`;
  return `${count} ${noun.replace(/(?<![aeiou])y$/, "ie").replace(/s$/, "se")}s`;
}
