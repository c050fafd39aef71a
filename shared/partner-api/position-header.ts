/**
 * Returns the name of the log position header. Responses to writes contain this header. If a partner sends it with a
 * read, the response reflects the write. Partners treat its value as opaque.
 */
export function getPositionHeader(brand: string): string {
  return `X-${brand}-Log-Position`;
}
