import { z } from "zod";
import { email } from "../../shared/domain/events/fields.ts";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { calendarDate, instant, uuid } from "../http/fields.ts";
import { createLimitParameter, offsetParameter } from "../http/parameters.ts";
import { buildJsonElementsSql, datedEnvelope, defineOperation } from "./operation.ts";

const MAX_ANIMALS = 500;

const animalSchema = z.strictObject({
  id: uuid,
  name: z.string(),
  species: z.string(),
  breed: z.string().nullable(),
  sex: z.string().nullable(),
  birthDate: calendarDate.nullable(),
  weightKg: z.number().nullable(),
  microchip: z.string().nullable(),
  updatedAt: instant,
});

const customerSchema = z.strictObject({
  id: uuid,
  fullName: z.string(),
  phone: z.string().nullable(),
  email: email.nullable(),
  city: z.string().nullable(),
  createdAt: instant,
  updatedAt: instant,
  animals: z.array(animalSchema),
});

const animalsSql = `SELECT ${buildJsonElementsSql("n.portal_json", `${buildNameSortSql("n.name")}, n.animal_id`)}
  FROM (SELECT * FROM ${READ_MODEL_SCHEMA}.animal
    WHERE animal.customer_id = u.customer_id AND animal.clinic_id = access.clinic_id
    ORDER BY ${buildNameSortSql("name")}, animal_id LIMIT ${MAX_ANIMALS}) n`;

/** @param operatorName value of the field `identityOwner` */
export function listCustomerProjections(operatorName: string) {
  return defineOperation({
    operationId: "listCustomerProjections",
    path: "/api/v1/customers",
    summary: "List customers and their animals",
    description:
      "Lists customers of the selected clinic with their animals, sorted by name. The list is limited, so it may not contain all customers.",
    parameters: { limit: createLimitParameter(100, 50), offset: offsetParameter },
    response: z.strictObject({
      ...datedEnvelope,
      context: z.strictObject({ clinicId: uuid, identityOwner: z.literal(operatorName) }),
      customers: z.array(customerSchema),
      page: z.strictObject({ limit: z.int().min(1), offset: z.int().min(0), returned: z.int().min(0) }),
    }),
    sql: `SELECT concat(
      '{"context":', json_build_object('clinicId', access.clinic_id, 'identityOwner', $5::text),
      ',"customers":[', ${buildJsonElementsSql(
        `u.portal_json || ',"animals":[' || coalesce((${animalsSql}), '') || ']'`,
        `${buildNameSortSql("u.full_name")}, u.customer_id`,
      )},
      '],"page":', json_build_object('limit', $3::integer, 'offset', $4::integer, 'returned', count(*)), '}')
    FROM (
      SELECT * FROM ${READ_MODEL_SCHEMA}.customer WHERE customer.clinic_id = access.clinic_id
      ORDER BY ${buildNameSortSql("full_name")}, customer_id
      LIMIT $3::integer OFFSET $4::integer
    ) u`,
    getValues: ({ limit, offset }) => [limit, offset, operatorName],
  });
}
