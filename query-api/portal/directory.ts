import { z } from "zod";
import { email } from "../../shared/domain/events/fields.ts";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { calendarDate, instant, uuid } from "../http/fields.ts";
import { createLimitParameter, createLiteralTrueParameter, offsetParameter } from "../http/parameters.ts";
import { buildBranchIdsSql } from "./authorization.ts";
import { buildJsonElementsSql, datedEnvelope, defineOperation, limitedPage } from "./operation.ts";

const serviceSchema = z.strictObject({
  id: uuid,
  name: z.string(),
  category: z.string().nullable(),
  price: z.number(),
  currency: z.string(),
  taxable: z.boolean(),
  active: z.boolean(),
  createdAt: instant,
});

export const listServices = defineOperation({
  operationId: "listServices",
  path: "/api/v1/services",
  summary: "List the service catalog",
  description:
    "Lists the services of the selected clinic, sorted by name. The list has a maximum length, so it may not contain all services.",
  parameters: {
    limit: createLimitParameter(100, 50),
    includeInactive: createLiteralTrueParameter(
      "If `true`, the list includes withdrawn services. Any other value is ignored. The parameter is also ignored for users without the permission `manage_tenant`.",
    ),
  },
  response: z.looseObject({
    ...datedEnvelope,
    context: z.strictObject({ clinicId: uuid, currency: z.string() }),
    services: z.array(serviceSchema),
    page: limitedPage,
  }),
  sql: `SELECT json_build_object(
    'context', json_build_object('clinicId', access.clinic_id, 'currency', access.currency),
    'services', coalesce(json_agg(json_build_object('id', s.service_id, 'name', s.name, 'category', s.category,
      'price', s.price, 'currency', s.currency, 'taxable', s.taxable, 'active', s.active,
      'createdAt', rfc3339(s.created_at)) ORDER BY ${buildNameSortSql("s.name")}, s.service_id), '[]'),
    'page', json_build_object('limit', $3::integer, 'returned', count(*)))
  FROM (
    SELECT * FROM ${READ_MODEL_SCHEMA}.service
    WHERE service.clinic_id = access.clinic_id
      AND (service.active OR ($4::boolean AND access.permissions ? 'manage_tenant'))
    ORDER BY ${buildNameSortSql("name")}, service_id
    LIMIT $3::integer
  ) s`,
  getValues: ({ limit, includeInactive }) => [limit, includeInactive],
});

/** Maximum number of staff members in the list. The list needs no pages, because no clinic has as many. */
const MAX_STAFF_MEMBERS = 1_000;

const staffMemberSchema = z.strictObject({
  id: uuid,
  userId: uuid.nullable(),
  fullName: z.string().nullable(),
  email: email.nullable(),
  role: z.string(),
  active: z.boolean(),
  createdAt: instant,
  access: z
    .strictObject({
      membershipId: uuid,
      status: z.string(),
      branchAccess: z.string().describe("`all` or `scoped`."),
      branchIds: z.array(uuid).describe("Branches that the member can access. Empty if `branchAccess` is `all`."),
      acceptedAt: instant.nullable(),
    })
    .nullable(),
});

/**
 * Selects the membership of staff member `s`. It has the id of the staff member, or no staff id and the same user.
 * Prefers the oldest active membership, which determines access, then the newest invited one, then the newest revoked
 * one.
 */
const membershipOfStaffSql = `SELECT * FROM ${READ_MODEL_SCHEMA}.membership m
  WHERE m.clinic_id = s.clinic_id
    AND (m.staff_id = s.staff_id OR (m.staff_id IS NULL AND m.user_id = s.user_id))
  ORDER BY m.status = 'active' DESC, m.status = 'invited' DESC,
    CASE WHEN m.status = 'active' THEN m.created_at END, m.created_at DESC, m.membership_id
  LIMIT 1`;

export const listStaff = defineOperation({
  operationId: "listStaff",
  path: "/api/v1/staff",
  summary: "List the clinic's staff",
  description: "Lists the staff members of the selected clinic with their portal access, sorted by name.",
  response: z.strictObject({ ...datedEnvelope, clinicId: uuid, staff: z.array(staffMemberSchema) }),
  sql: `SELECT json_build_object(
    'clinicId', access.clinic_id,
    'staff', coalesce(json_agg(json_build_object('id', s.staff_id, 'userId', s.user_id, 'fullName', s.full_name,
      'email', s.email, 'role', s.role, 'active', s.active, 'createdAt', rfc3339(s.created_at),
      'access', CASE WHEN m.membership_id IS NOT NULL THEN json_build_object('membershipId', m.membership_id,
        'status', m.status, 'branchAccess', m.branch_access, 'branchIds', ${buildBranchIdsSql("m")},
        'acceptedAt', rfc3339(m.accepted_at)) END) ORDER BY ${buildNameSortSql("s.full_name")}, s.staff_id), '[]'))
  FROM (
    SELECT * FROM ${READ_MODEL_SCHEMA}.staff WHERE staff.clinic_id = access.clinic_id
    ORDER BY ${buildNameSortSql("full_name")}, staff_id
    LIMIT ${MAX_STAFF_MEMBERS}
  ) s
  LEFT JOIN LATERAL (${membershipOfStaffSql}) m ON true`,
});

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

/**
 * Creates the operation that lists customers and their animals.
 *
 * @param operatorName value of the field `identityOwner`
 */
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
