import type { ClientBase } from "pg";
import type { RecordedEvent } from "../../shared/eventstore/log.ts";
import type { AnyReadModel } from "./read-model.ts";

/** Part of a batch. The engine first deletes the rows of the sandbox, if there is one, and then folds the events. */
export interface BatchSegment {
  /** Clinic of the sandbox whose rows are deleted. Null if no rows are deleted. */
  sandboxToClear: string | null;
  events: RecordedEvent[];
}

/** Current generation of each sandbox, by the id of the sandbox's clinic. */
export type Generations = Map<string, number>;

/**
 * Splits a batch at sandbox resets. A reset deletes the rows of the sandbox, and then applies the fixture events that
 * the reset contains. The segments omit appointment requests of earlier generations.
 *
 * @param generations generations before the batch; updated to the generations after the batch
 */
export function splitAtResets(events: readonly RecordedEvent[], generations: Generations): BatchSegment[] {
  let segment: BatchSegment = { sandboxToClear: null, events: [] };
  const segments = [segment];
  for (const event of events) {
    if (event.type === "SandboxReset") {
      const { clinicId, generation } = event.data;
      generations.set(clinicId, generation);
      // Before the first generation there are no rows to delete.
      segment = {
        sandboxToClear: generation > 1 ? clinicId : null,
        events: [event, ...toFixtureEvents(event)],
      };
      segments.push(segment);
    } else if (!isOfEarlierGeneration(event, generations)) segment.events.push(event);
  }
  return segments;
}

function toFixtureEvents(resetEvent: RecordedEvent & { type: "SandboxReset" }): RecordedEvent[] {
  const { data, metadata, type: _, ...location } = resetEvent;
  return data.facts.map(({ at, ...fact }) => ({
    ...location,
    ...fact,
    metadata: { ...metadata, occurredAt: at },
  }));
}

/**
 * Returns true for an appointment request of an earlier generation. Later events of such an appointment find no row and
 * change nothing.
 */
function isOfEarlierGeneration(event: RecordedEvent, generations: Generations): boolean {
  if (event.type !== "AppointmentRequested" || event.data.sandboxGeneration === 0) return false;
  return event.data.sandboxGeneration !== generations.get(event.data.clinicId);
}

/** Loads the current generations of the sandboxes in which a batch requests appointments. */
export async function loadGenerations(
  client: ClientBase,
  schema: string,
  events: readonly RecordedEvent[],
): Promise<Generations> {
  const clinicIds = new Set<string>();
  for (const event of events) {
    if (event.type === "AppointmentRequested" && event.data.sandboxGeneration > 0) {
      clinicIds.add(event.data.clinicId);
    }
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
export async function deleteSandboxRows(
  client: ClientBase,
  schema: string,
  models: readonly AnyReadModel[],
  clinicId: string,
): Promise<void> {
  for (const model of models.toReversed()) {
    if (model.sandboxCondition === undefined) continue;
    await client.query({
      name: `wipe ${schema}.${model.table}`,
      text: `DELETE FROM ${schema}.${model.table} WHERE ${model.sandboxCondition(schema)}`,
      values: [clinicId],
    });
  }
}
