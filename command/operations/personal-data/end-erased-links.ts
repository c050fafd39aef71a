import { concernsOneStream } from "../../../shared/eventstore/stream-failure.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { withdrawLink } from "../animal-link-operations.ts";
import type { PersonalDataStores } from "./erase-person.ts";

const MAX_LINKS = 1_000;

const ERASED_LINKS_SQL = `
  SELECT l.animal_id AS "animalId", l.application_id AS "applicationId", l.clinic_id AS "clinicId"
    FROM ${READ_MODEL_SCHEMA}.animal_link l
    JOIN ${READ_MODEL_SCHEMA}.erasure e ON e.person_type = 'customer' AND e.person_id = l.customer_id
   WHERE e.contact_erased_at IS NOT NULL AND ($1::uuid IS NULL OR l.customer_id = $1)
   LIMIT ${MAX_LINKS}`;

/**
 * Withdraws the links of erased owners, at most 1,000. The erasure has ended these links already, and the withdrawal
 * informs the applications. A link whose stream cannot be read is skipped.
 *
 * @param customerId owner of the links; all owners if undefined
 */
export async function endErasedLinks(
  { log, pool }: PersonalDataStores,
  context: CommandContext,
  customerId?: string,
): Promise<void> {
  const { rows } = await pool.query<{ animalId: string; applicationId: string; clinicId: string }>(ERASED_LINKS_SQL, [
    customerId ?? null,
  ]);
  for (const link of rows)
    await withdrawLink(log, { ...link, requestedBy: "clinic" }, context).catch(async (error: unknown) => {
      if (!(await concernsOneStream(log, error))) throw error;
    });
}
