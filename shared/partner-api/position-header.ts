/**
 * Returns the name of the log position header. Responses to writes contain this header. If a partner sends it with a
 * read, the response reflects the write, or the read fails with 503. The value is opaque to partners.
 */
export function getPositionHeader(brand: string): string {
  return `X-${brand}-Log-Position`;
}
