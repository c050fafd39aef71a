import { buildPartnerDocument } from "../../query-api/docs/partner-document.ts";
import { partnerReads } from "../../query-api/partner/reads.ts";
import { type CheckedResponse, createResponseChecker } from "./openapi.ts";

/** OpenAPI document of the partner API. */
export const partnerDocument = buildPartnerDocument(partnerReads, {
  operatorName: "Test Operator",
  brand: "SERVICE",
  origin: "http://partners.test",
});

/** Checks responses against the document. Origin and operator name do not affect the checks. */
export const partnerResponseChecker = createResponseChecker(partnerDocument);

/** Fails if the response to a partner's request differs from the document, which lists the operations of a clinic. */
export function checkPartnerResponse(method: string, url: string, response: CheckedResponse): void {
  const path = /^\/(?:sandbox|production)\/v1(?:\/application(?=\/))?(\/.*)$/.exec(new URL(url).pathname)?.[1];
  const operation = path === undefined ? undefined : partnerResponseChecker.findOperation(method, path);
  if (operation) partnerResponseChecker.checkResponse(operation, response);
}
