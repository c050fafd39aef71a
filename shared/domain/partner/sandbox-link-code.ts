import type { LinkCode } from "../clinic/animal-consent.ts";
import type { ConsentCoverage } from "../events/consent.ts";
import { deriveSandboxEntityId } from "../events/ids.ts";
import type { Sandbox } from "./sandbox.ts";

/**
 * Published link codes of all sandboxes. `valid` and `readOnly` can be redeemed once after each reset. `expired` and
 * `used` are always refused, like expired and used codes in production.
 */
export const SANDBOX_LINK_CODES = {
  valid: "SAND-B0XC-0DE1",
  expired: "SAND-B0XC-0DE2",
  used: "SAND-B0XC-0DE3",
  readOnly: "SAND-B0XC-0DE4",
};

const LINKS: readonly { code: string; animalName: string; covers: ConsentCoverage }[] = [
  { code: SANDBOX_LINK_CODES.valid, animalName: "Biscuit", covers: "appointments_write" },
  { code: SANDBOX_LINK_CODES.readOnly, animalName: "Misty", covers: "appointments_read" },
];

interface SandboxLink {
  code: string;
  animalId: string;
  linkId: string;
  sandboxCode: LinkCode;
}

/** Lists the links that the codes of a sandbox create. */
export function listSandboxLinks({
  applicationId,
  generation,
}: Pick<Sandbox, "applicationId" | "generation">): SandboxLink[] {
  return LINKS.map(({ code, animalName, covers }) => {
    const linkId = deriveSandboxEntityId(applicationId, "animal link", `${animalName} ${generation}`);
    const animalId = deriveSandboxEntityId(applicationId, "animal", animalName);
    return { code, animalId, linkId, sandboxCode: { linkId, covers, expiresAt: null } };
  });
}
