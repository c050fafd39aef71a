/**
 * Returns the name of the log position header. Responses to writes contain it. A partner who sends it with a read
 * sees the write. Partners treat its value as opaque.
 */
export function positionHeader(brand: string): string {
  return `X-${brand}-Log-Position`;
}
