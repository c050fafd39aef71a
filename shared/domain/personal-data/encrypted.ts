import { z } from "zod";
import { uuid } from "../events/fields.ts";

/** Member of an event's stored data that holds the encrypted personal fields. */
export const ENCRYPTED_MEMBER = "encrypted";

/** The personal fields of an event, as stored in the log. */
export const encryptedPersonalData = z.strictObject({
  /** Id of the person's data key in the key store. */
  keyId: uuid,
  /** Base64 of nonce (12 bytes), AES-256-GCM ciphertext of the fields as JSON, and tag (16 bytes). */
  ciphertext: z.string(),
});
export type EncryptedPersonalData = z.infer<typeof encryptedPersonalData>;
