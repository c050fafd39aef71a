/**
 * The header that carries a position in the log: out of an answer to a write, and into reads that must know of it.
 * To partners it is an opaque text.
 */
export function positionHeader(brand: string): string {
  return `X-${brand}-Log-Position`;
}
