import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import { findPersonalFields, separatePersonalData } from "../../shared/domain/personal-data/personal-fields.ts";
import { DataKeyError } from "../../shared/personal-data/data-keys.ts";

/**
 * Refuses events that could record a neutral value instead of personal data that cannot be decrypted. After the data
 * keys are restored, such an event would still hide the earlier data.
 *
 * @param events events of a stream with a missing data key
 * @throws {DataKeyError}
 */
export function requireKnownPersonalData(events: readonly CatalogEvent[]): void {
  for (const event of events) {
    const personalData = separatePersonalData(event)?.personalData;
    const fields = findPersonalFields(event.type)?.fields ?? [];
    if (personalData && fields.some(({ name, neutralValue }) => personalData[name] === neutralValue))
      throw new DataKeyError(
        `${event.type} cannot be recorded, because the data key of the earlier personal data is missing; restore the data keys from a backup`,
      );
  }
}
