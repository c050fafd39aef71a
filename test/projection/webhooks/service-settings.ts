/** Settings of the service in a world. Processes that tests start import them without the world's code. */

/** Prefix of the header names. */
export const BRAND = "SERVICE";

/** Keys that encrypt the secrets of endpoints. */
export const SECRET_KEYS = { current: "k1", keys: { k1: Buffer.alloc(32, 7).toString("base64") } };
