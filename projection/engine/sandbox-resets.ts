import type { ClientBase } from "pg";
import type { RecordedEvent } from "../../shared/eventstore/log.ts";
import type { AnyReadModel } from "./read-model.ts";

/** Current generation of each sandbox, by the id of the sandbox's clinic. */
export type Generations = Map<string, number>;

/** Returns the fixture events that a reset contains. */
export function toFixtureEvents(resetEvent: RecordedEvent & { type: "SandboxReset" }): RecordedEvent[] {
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
export function isOfEarlierGeneration(event: RecordedEvent, generations: Generations): boolean {
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
