import { READ_MODEL_SCHEMA } from "../postgres/read-model-schema.ts";

/**
 * SQL condition that is true if the link `l` is valid. An erasure of the owner's contact data ends the link at once,
 * before an event withdraws it.
 */
export const IS_LINK_VALID_SQL = `NOT EXISTS (SELECT FROM ${READ_MODEL_SCHEMA}.erasure
    WHERE person_type = 'customer' AND person_id = l.customer_id AND contact_erased_at IS NOT NULL)`;

/**
 * Returns an SQL condition that is true if an installation may see data about an animal. Every statement that returns an
 * appointment, event or delivery of a partner must contain it. If the animal is null, only installations with access to
 * all animals may see the data.
 *
 * @param sql SQL expressions for the animal access of the installation, and for the ids of application and animal
 */
export function buildIsAnimalVisibleSql(sql: {
  animalAccess: string;
  applicationId: string;
  animalId: string;
}): string {
  return `(${sql.animalAccess} = 'all' OR EXISTS (SELECT FROM ${READ_MODEL_SCHEMA}.animal_link l
    WHERE l.application_id = ${sql.applicationId} AND l.animal_id = ${sql.animalId} AND ${IS_LINK_VALID_SQL}))`;
}

/**
 * SQL condition that is true if a partner may see a delivery `d`. The application's installation must permit the branch
 * and the animal, unless the delivery has no branch. Other deliveries must appear to partners as missing. If the
 * statement knows the installation, use {@link buildIsDeliveryVisibleSql} instead.
 */
export const IS_DELIVERY_VISIBLE_SQL = `(d.branch_id IS NULL OR EXISTS (SELECT FROM ${READ_MODEL_SCHEMA}.installation i
    WHERE i.application_id = d.application_id AND i.clinic_id = d.clinic_id
      AND (i.branch_ids IS NULL OR i.branch_ids ? d.branch_id::text)
      AND ${buildIsAnimalVisibleSql({ animalAccess: "i.animal_access", applicationId: "i.application_id", animalId: "d.animal_id" })}))`;

/**
 * Returns an SQL condition that is true if an installation may see the animal of a delivery, or if the delivery has no
 * branch. The statement must check the branch itself.
 *
 * @param delivery name of the table with the columns `branch_id` and `animal_id`
 * @param sql as for {@link buildIsAnimalVisibleSql}
 */
export function buildIsDeliveryVisibleSql(
  delivery: string,
  sql: { animalAccess: string; applicationId: string },
): string {
  const isAnimalVisibleSql = buildIsAnimalVisibleSql({ ...sql, animalId: `${delivery}.animal_id` });
  return `(${delivery}.branch_id IS NULL OR ${isAnimalVisibleSql})`;
}
