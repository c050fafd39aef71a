/**
 * Returns the name of the log position header. Responses to writes contain this header. If a partner sends the header
 * with a read, the response reflects the write. Partners must treat the header's value as opaque.
 */
export function getPositionHeader(brand: string): string {
  return `X-${brand}-Log-Position`;
}
