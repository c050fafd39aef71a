import type { ClinicState } from "../../shared/partner-api/access.ts";
import type { CommandContext } from "../handling/handle.ts";

/** What a partner's request leaves in the metadata of its events. */
export function toCommandContext(state: ClinicState): CommandContext {
  const { applicationId, clinicId, environment, correlationId, now } = state;
  const actor = { type: "application", id: applicationId } as const;
  return { actor, clinicId, environment, correlationId, causationId: correlationId, now };
}
