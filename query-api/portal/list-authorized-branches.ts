import { z } from "zod";
import { buildNameSortSql, READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { uuid } from "../http/fields.ts";
import { buildIsInScopeSql } from "./authorization.ts";
import { datedEnvelope, defineOperation } from "./operation.ts";

/** The list has no pages, because every clinic has fewer branches than this. */
const MAX_BRANCHES = 1_000;

const branchSchema = z.strictObject({
  id: uuid,
  name: z.string(),
  city: z.string().nullable(),
  isMain: z.boolean(),
  isCurrent: z.boolean(),
});

export const listAuthorizedBranches = defineOperation({
  operationId: "listAuthorizedBranches",
  path: "/api/v1/branches",
  summary: "List the clinic's branches",
  description: "Lists the branches of the selected clinic that the user can access, sorted by name.",
  response: z.strictObject({
    ...datedEnvelope,
    clinicId: uuid,
    currentBranchId: uuid,
    branches: z.array(branchSchema),
  }),
  sql: `SELECT json_build_object(
    'clinicId', access.clinic_id,
    'currentBranchId', access.branch_id,
    'branches', coalesce(json_agg(json_build_object('id', b.branch_id, 'name', b.name, 'city', b.city,
      'isMain', b.is_main, 'isCurrent', b.branch_id = access.branch_id) ORDER BY ${buildNameSortSql("b.name")}, b.branch_id), '[]'))
  FROM (
    SELECT * FROM ${READ_MODEL_SCHEMA}.branch
    WHERE branch.clinic_id = access.clinic_id AND ${buildIsInScopeSql("access", "branch.branch_id")}
    ORDER BY ${buildNameSortSql("name")}, branch_id
    LIMIT ${MAX_BRANCHES}
  ) b`,
});
