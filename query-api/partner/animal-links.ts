import { z } from "zod";
import { IS_LINK_VALID_SQL } from "../../shared/partner-api/animal-access.ts";
import { publicLink } from "../../shared/partner-api/records.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { animalIdParameter, createLimitParameter } from "../http/parameters.ts";
import { buildPageSql, partnerPage } from "./cursor.ts";
import { definePartnerRead, parsePathId } from "./read.ts";

/** SQL that selects the valid links of an application ($2) at a clinic ($1), with their animals. */
const LINKED_ANIMALS_SQL = `SELECT l.link_id, l.linked_at, l.covers, n.animal_id, n.name, n.species
  FROM ${READ_MODEL_SCHEMA}.animal_link l
  JOIN ${READ_MODEL_SCHEMA}.animal n ON n.animal_id = l.animal_id AND n.clinic_id = l.clinic_id
  WHERE l.application_id = $2::uuid AND l.clinic_id = $1::uuid AND ${IS_LINK_VALID_SQL}`;

export const listAnimalLinks = definePartnerRead({
  operationId: "listAnimalLinks",
  description: "Lists the application's links to animals of the clinic, oldest first, in pages.",
  parameters: { limit: createLimitParameter(250, 100), animalId: animalIdParameter },
  isPaged: true,
  response: z.strictObject({ ok: z.literal(true), links: z.array(publicLink.schema), page: partnerPage }),
  refusals: {},
  sql: `WITH page_and_next_row AS MATERIALIZED (${LINKED_ANIMALS_SQL}
      AND ($6::uuid IS NULL OR l.animal_id = $6::uuid)
      AND ($4::timestamptz IS NULL OR (l.linked_at, l.link_id) > ($4::timestamptz, $5::uuid))
      ORDER BY l.linked_at, l.link_id LIMIT $3::integer + 1),
    page AS (SELECT * FROM page_and_next_row ORDER BY linked_at, link_id LIMIT $3::integer)
    SELECT NULL AS refusal, json_build_object(
      'links', coalesce((SELECT json_agg(${publicLink.sql} ORDER BY linked_at, link_id) FROM page), '[]'),
      'page', ${buildPageSql("linked_at", "link_id", "$3", "linked_at DESC, link_id DESC")})::text AS body`,
  getSqlParameters: ({ state: { clinicId, applicationId }, parameters: { limit, animalId }, cursor }) => [
    ...[clinicId, applicationId, limit, cursor?.time, cursor?.id, animalId],
  ],
});

export const getAnimalLink = definePartnerRead({
  operationId: "getAnimalLink",
  description: "Returns a link to an animal. After the link has ended, the response is 404.",
  response: z.strictObject({ ok: z.literal(true), link: publicLink.schema }),
  refusals: { animal_link_not_found: 404 },
  sql: `SELECT CASE WHEN link_id IS NULL THEN 'animal_link_not_found' END AS refusal,
    json_build_object('link', ${publicLink.sql})::text AS body
    FROM (VALUES (1)) request
    LEFT JOIN (${LINKED_ANIMALS_SQL} AND l.link_id = $3::uuid) found ON true`,
  getSqlParameters: ({ state: { clinicId, applicationId }, pathParams: { linkId } }) => [
    ...[clinicId, applicationId, parsePathId(linkId)],
  ],
});
