import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import { findPersonalFields } from "../../shared/domain/personal-data/personal-fields.ts";
import { DataKeyError } from "../../shared/personal-data/data-keys.ts";

/**
 * Refuses events that could record a neutral value instead of personal data that cannot be decrypted. After the data
 * keys are restored, such an event would still hide the earlier data. An event without any text is permitted.
 *
 * @param events events of a stream with a missing data key
 * @throws {DataKeyError}
 */
export function requireKnownPersonalData(events: readonly CatalogEvent[]): void {
  for (const { type, data } of events) {
    const values = data as Record<string, unknown>;
    const fields = findPersonalFields(type)?.fields ?? [];
    const hasText = fields.some(({ name }) => values[name] !== null);
    if (hasText && fields.some(({ name, neutralValue }) => values[name] === neutralValue))
      throw new DataKeyError(
        `${type} cannot be recorded, because the data key of the earlier personal data is missing; restore the data keys from a backup`,
      );
  }
}
