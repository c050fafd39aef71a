import { buildPartnerDocument } from "../../query-api/docs/partner-document.ts";
import { partnerReads } from "../../query-api/partner/reads.ts";
import { createJudge, type JudgedAnswer } from "./openapi.ts";

/** The partner API's document as its judge; whose origin and operator it names makes no difference to answers. */
export const partnerJudge = createJudge(
  buildPartnerDocument(partnerReads, {
    operatorName: "Test Operator",
    brand: "SERVICE",
    origin: "http://partners.test",
  }),
);

/** Fails if the response of a partner operation differs from the partner API's document. */
export function checkPartnerAnswer(method: string, url: string, answer: JudgedAnswer): void {
  const path = /^\/(?:sandbox|production)\/v1(\/.*)$/.exec(new URL(url).pathname)?.[1];
  const operation = path === undefined ? undefined : partnerJudge.find(method, path);
  if (operation) partnerJudge.check(operation, answer);
}
