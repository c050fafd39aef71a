/** Settings of the service in tests. A separate file, so that child processes do not load the code of `world.ts`. */

/** Prefix in the names of HTTP headers. */
export const BRAND = "SERVICE";

/** Keys that encrypt webhook secrets. */
export const SECRET_KEYS = { current: "k1", keys: { k1: Buffer.alloc(32, 7).toString("base64") } };
