import { createHash, randomBytes } from "node:crypto";

/** @returns a new client secret of 256 random bits, as it is shown to the partner once */
export function newClientSecret(): string {
  return `cs_${randomBytes(32).toString("base64url")}`;
}

/** What is kept of a client secret. Plain SHA-256 (hex) does: nobody guesses 256 random bits. */
export function hashClientSecret(secret: string): string {
  return createHash("sha256").update(secret, "utf8").digest("hex");
}
