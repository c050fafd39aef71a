import { z } from "zod";
import { publicLink } from "../../shared/partner-api/records.ts";
import { LINKED_ANIMALS_SQL } from "./list-animal-links.ts";
import { definePartnerRead, parsePathId } from "./read.ts";

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
