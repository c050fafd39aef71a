import type { ClientBase } from "pg";
import type { RecordedEvent } from "../../shared/eventstore/log.ts";
import type { AnyReadModel } from "./read-model.ts";

/** Events that can be folded together, after what a reset wipes was wiped. */
export interface Part {
  /** The sandbox's clinic whose rows go first; null where there is nothing to wipe. */
  wipe: string | null;
  events: RecordedEvent[];
}

/** The current generation of sandboxes, by clinic. */
export type Generations = Map<string, number>;

/**
 * Cuts a batch at the resets of sandboxes. A reset wipes the sandbox's rows and puts the facts of its fixture in their
 * place, as if each were an event; what the sandbox's application still created in a former generation is left out.
 * Pure, but for the generations, which it moves on.
 */
export function partsOf(events: readonly RecordedEvent[], generations: Generations): Part[] {
  let part: Part = { wipe: null, events: [] };
  const parts = [part];
  for (const event of events) {
    if (event.type === "SandboxReset") {
      const { clinicId, generation } = event.data;
      generations.set(clinicId, generation);
      // The first generation finds nothing to wipe.
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

/** Whether an appointment was decided in a generation that a reset has ended meanwhile. Its later moves find no row. */
function isPast(event: RecordedEvent, generations: Generations): boolean {
  if (event.type !== "AppointmentRequested" || event.data.sandboxGeneration === 0) return false;
  return event.data.sandboxGeneration !== generations.get(event.data.clinicId);
}

/** The generations that a batch is judged by, before it. */
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

/** Deletes what a sandbox holds: first what is found by way of other rows, so from the last read model to the first. */
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
