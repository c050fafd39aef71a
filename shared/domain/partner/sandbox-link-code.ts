import type { LinkCode } from "../clinic/animal-consent.ts";
import { deriveSandboxEntityId } from "../events/ids.ts";
import type { Sandbox } from "./sandbox.ts";

/**
 * Published link codes of all sandboxes. The first can be redeemed once after each reset. The others are refused, as an
 * expired and a used code are in production.
 */
export const SANDBOX_LINK_CODES = { valid: "SAND-B0XC-0DE1", expired: "SAND-B0XC-0DE2", used: "SAND-B0XC-0DE3" };

const LINKED_ANIMAL_NAME = "Biscuit";

/** Returns the link that the valid code of a sandbox creates. */
export function getSandboxLink({ applicationId, generation }: Pick<Sandbox, "applicationId" | "generation">): {
  animalId: string;
  linkId: string;
  sandboxCode: LinkCode;
} {
  const linkId = deriveSandboxEntityId(applicationId, "animal link", String(generation));
  return {
    animalId: deriveSandboxEntityId(applicationId, "animal", LINKED_ANIMAL_NAME),
    linkId,
    sandboxCode: { linkId, covers: "appointments_write", expiresAt: null },
  };
}
