import { compactVerify, decodeProtectedHeader } from "jose";
import { SIGNATURE_TYPES, type SignatureType } from "./signing.ts";
import { type GetTrustedKey, UntrustedKeyError } from "./verify-key.ts";

/** Code of a fault of a signature. docs/audit-format.md describes the codes. */
export type SignatureFaultCode = "signature_invalid" | "key_untrusted" | "signature_type_wrong";

interface SignatureFault {
  fault: SignatureFaultCode;
  problem: string;
}

/** Describes what a signature of a type is for. */
const PURPOSES: Record<SignatureType, string> = {
  [SIGNATURE_TYPES.export]: "an audit export",
  [SIGNATURE_TYPES.treeHead]: "a tree head",
};

/**
 * Verifies a signature (JWS).
 *
 * @param type the required type of the signature
 * @returns the signed text, or the fault of the signature
 */
export async function verifySignature(
  signature: string,
  type: SignatureType,
  getTrustedKey: GetTrustedKey,
): Promise<{ text: string } | SignatureFault> {
  try {
    if (!signature.split(".").every(isBase64url)) return INVALID_SIGNATURE;
    if (decodeProtectedHeader(signature).crit !== undefined) return INVALID_SIGNATURE;
    const { payload, protectedHeader } = await compactVerify(signature, getTrustedKey, { algorithms: ["EdDSA"] });
    if (protectedHeader.typ !== type)
      return { fault: "signature_type_wrong", problem: `the signature is not for ${PURPOSES[type]}` };
    return { text: Buffer.from(payload).toString("utf8") };
  } catch (error) {
    if (error instanceof UntrustedKeyError) return { fault: "key_untrusted", problem: error.message };
    return INVALID_SIGNATURE;
  }
}

const INVALID_SIGNATURE: SignatureFault = { fault: "signature_invalid", problem: "the signature is invalid" };

/** Returns true for base64url in its only valid form. Decoders also accept padding, spaces and other unused bits. */
function isBase64url(text: string): boolean {
  return Buffer.from(text, "base64url").toString("base64url") === text;
}
