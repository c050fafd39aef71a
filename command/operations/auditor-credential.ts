import { createHash, randomBytes } from "node:crypto";

/** `aud_`, the auditor's id without hyphens, `_`, and the secret: 256 random bits. */
const CREDENTIAL = /^aud_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})_([\w-]{43})$/;

/** @returns a new credential as it is shown once, and the hash that is kept */
export function newCredential(auditorId: string): { credential: string; secretHash: string } {
  const secret = randomBytes(32).toString("base64url");
  return {
    credential: `aud_${auditorId.replaceAll("-", "")}_${secret}`,
    secretHash: hashSecret(secret),
  };
}

/** @returns whose credential a text says it is, and the secret's hash; undefined for what is none */
export function readCredential(text: string): { auditorId: string; secretHash: string } | undefined {
  const match = CREDENTIAL.exec(text);
  const secret = match?.[6];
  if (!match || secret === undefined) return undefined;
  return { auditorId: match.slice(1, 6).join("-"), secretHash: hashSecret(secret) };
}

/** Plain SHA-256 (hex) does: nobody guesses 256 random bits. */
function hashSecret(secret: string): string {
  return createHash("sha256").update(secret, "utf8").digest("hex");
}
