import { z } from "zod";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { instant, uuid } from "../http/fields.ts";
import { createLimitParameter, createLiteralTrueParameter } from "../http/parameters.ts";
import { datedEnvelope, defineOperation, limitedPage } from "./operation.ts";

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
