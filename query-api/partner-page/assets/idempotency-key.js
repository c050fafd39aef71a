/** Creates a random idempotency key. `crypto.randomUUID` is not available on pages without TLS. */
export function createIdempotencyKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
