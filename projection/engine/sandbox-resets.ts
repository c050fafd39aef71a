import type { ClientBase } from "pg";
import type { RecordedEvent } from "../../shared/eventstore/log.ts";
import type { AnyReadModel } from "./read-model.ts";

/** Part of a batch: rows to delete first, and events to fold afterwards. */
export interface Part {
  /** Clinic of the sandbox whose rows are deleted first; null for none. */
  wipe: string | null;
  events: RecordedEvent[];
}

/** Current generation of sandboxes, by clinic. */
export type Generations = Map<string, number>;

/**
 * Splits a batch at sandbox resets. A reset deletes the rows of the sandbox and then applies each fact of its fixture like
 * an event. Appointments that were requested in an earlier generation are dropped. Pure, except that it updates the
 * given generations.
 */
export function partsOf(events: readonly RecordedEvent[], generations: Generations): Part[] {
  let part: Part = { wipe: null, events: [] };
  const parts = [part];
  for (const event of events) {
    if (event.type === "SandboxReset") {
      const { clinicId, generation } = event.data;
      generations.set(clinicId, generation);
      // Before the first generation there are no rows to delete.
      part = { wipe: generation > 1 ? clinicId : null, events: [event, ...factsOf(event)] };
      parts.push(part);
    } else if (!isPast(event, generations)) part.events.push(event);
  }
  return parts;
}

function factsOf(reset: RecordedEvent & { type: "SandboxReset" }): RecordedEvent[] {
  const { data, metadata, type: _, ...place } = reset;
  return data.facts.map(({ at, ...fact }) => ({
    ...place,
    ...fact,
    metadata: { ...metadata, occurredAt: at },
  }));
}

/** Returns true for an appointment of an earlier generation. Later events about it find no row and change nothing. */
function isPast(event: RecordedEvent, generations: Generations): boolean {
  if (event.type !== "AppointmentRequested" || event.data.sandboxGeneration === 0) return false;
  return event.data.sandboxGeneration !== generations.get(event.data.clinicId);
}

/** Loads the generations before a batch. */
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

/** Deletes all rows of a sandbox. It starts with the last read model, because rows are found by way of earlier ones. */
export async function wipeSandbox(
  client: ClientBase,
  schema: string,
  models: readonly AnyReadModel[],
  clinicId: string,
): Promise<void> {
  for (const model of models.toReversed()) {
    if (model.inSandbox === undefined) continue;
    await client.query({
      name: `wipe ${schema}.${model.table}`,
      text: `DELETE FROM ${schema}.${model.table} WHERE ${model.inSandbox(schema)}`,
      values: [clinicId],
    });
  }
}
