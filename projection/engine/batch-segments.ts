import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import type { Tables } from "./rows.ts";

export type CustomerErasure = RecordedEvent<Extract<CatalogEvent, { type: "CustomerDataErased" }>>;

/**
 * Part of a batch. The engine first deletes the rows of `sandboxToClear`. Then it erases the data of `customerErasures`
 * in all rows of these customers, and folds `events`.
 */
interface BatchSegment {
  /** Id of the clinic whose sandbox rows are deleted; null if no rows are deleted. */
  sandboxToClear: string | null;
  customerErasures: CustomerErasure[];
  events: RecordedEvent[];
}

/**
 * Splits a batch into segments. Drops events that add data to earlier generations of a sandbox.
 *
 * - A sandbox reset starts a segment, because it deletes the rows of earlier events. The segment also contains the
 *   fixture events of the reset.
 * - The erasure of a customer's data starts a segment, because it changes all earlier rows of the customer. Consecutive
 *   erasures share a segment. The next other event starts a new segment, so that it is checked against the erasures.
 *
 * @param generations current generations before the batch; updated to the generations after the batch
 */
export function splitBatch(events: readonly RecordedEvent[], generations: Generations): BatchSegment[] {
  let segment: BatchSegment = { sandboxToClear: null, customerErasures: [], events: [] };
  const segments = [segment];
  for (const event of events) {
    if (event.type === "SandboxReset") {
      const { clinicId, generation } = event.data;
      generations.set(clinicId, generation);
      // Before the first generation there are no rows to delete.
      const sandboxToClear = generation > 1 ? clinicId : null;
      segment = { sandboxToClear, customerErasures: [], events: [event, ...toFixtureEvents(event)] };
      segments.push(segment);
    } else if (event.type === "CustomerDataErased") {
      if (segment.events.length > segment.customerErasures.length) {
        segment = { sandboxToClear: null, customerErasures: [], events: [] };
        segments.push(segment);
      }
      segment.customerErasures.push(event as CustomerErasure);
      // The customer and the record of erasures each have one row, which changes like a row of any other event.
      segment.events.push(event);
    } else if (!isOfEarlierGeneration(event, generations)) {
      if (segment.customerErasures.length > 0) {
        segment = { sandboxToClear: null, customerErasures: [], events: [] };
        segments.push(segment);
      }
      segment.events.push(event);
    }
  }
  return segments;
}

/** Current generation of each sandbox, by clinic id. A reset starts a new generation. */
type Generations = Map<string, number>;

function toFixtureEvents(resetEvent: RecordedEvent & { type: "SandboxReset" }): RecordedEvent[] {
  const { data, metadata, type: _, ...location } = resetEvent;
  return data.events.map(({ at, ...event }) => ({
    ...location,
    ...event,
    metadata: { ...metadata, occurredAt: at },
  }));
}

type SandboxData = RecordedEvent & { type: "AppointmentRequested" | "AnimalLinked" };

/** Returns true if an event adds data to a sandbox. The next reset deletes such data. */
export function belongsToGeneration(event: RecordedEvent): event is SandboxData {
  return (event.type === "AppointmentRequested" || event.type === "AnimalLinked") && event.data.sandboxGeneration > 0;
}

/**
 * Returns true if an event adds data to a generation that a reset has ended. Later events about this data find no row.
 */
function isOfEarlierGeneration(event: RecordedEvent, generations: Generations): boolean {
  if (!belongsToGeneration(event)) return false;
  return event.data.sandboxGeneration !== generations.get(event.data.clinicId);
}

/** Loads the current generations of the sandboxes in which a batch adds data. */
export async function loadGenerations(
  { client, schema }: Tables,
  events: readonly RecordedEvent[],
): Promise<Generations> {
  const clinicIds = new Set<string>();
  for (const event of events) {
    if (belongsToGeneration(event)) clinicIds.add(event.data.clinicId);
  }
  if (clinicIds.size === 0) return new Map();
  const { rows } = await client.query<{ clinic_id: string; generation: number }>({
    name: `generations ${schema}`,
    text: `SELECT clinic_id, generation FROM ${schema}.sandbox WHERE clinic_id = ANY ($1::uuid[])`,
    values: [[...clinicIds]],
  });
  return new Map(rows.map(({ clinic_id, generation }) => [clinic_id, generation]));
}

/**
 * Deletes all rows of a sandbox. Starts with the last read model, because its condition may query the tables of earlier
 * read models.
 */
export async function deleteSandboxRows({ client, schema, models }: Tables, clinicId: string): Promise<void> {
  for (const model of models.toReversed()) {
    if (model.sandboxCondition === undefined) continue;
    await client.query({
      name: `wipe ${schema}.${model.table}`,
      text: `DELETE FROM ${schema}.${model.table} WHERE ${model.sandboxCondition(schema)}`,
      values: [clinicId],
    });
  }
}
