/**
 * Name of the header that carries a log position. Responses to writes return it; reads send it to see the write.
 * Partners treat the value as opaque.
 */
export function positionHeader(brand: string): string {
  return `X-${brand}-Log-Position`;
}
