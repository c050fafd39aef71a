import { buildPartnerDocument } from "../../query-api/docs/partner-document.ts";
import { partnerReads } from "../../query-api/partner/reads.ts";
import { type CheckedResponse, createResponseChecker } from "./openapi.ts";

export const partnerDocument = buildPartnerDocument(partnerReads, {
  operatorName: "Test Operator",
  brand: "SERVICE",
  origin: "http://partners.test",
});

export const partnerResponseChecker = createResponseChecker(partnerDocument);

/** Fails if a response differs from the document. Operations without a clinic are checked like those of a clinic. */
export function checkPartnerResponse(method: string, url: string, response: CheckedResponse): void {
  const path = /^\/(?:sandbox|production)\/v1(?:\/application(?=\/))?(\/.*)$/.exec(new URL(url).pathname)?.[1];
  const operation = path === undefined ? undefined : partnerResponseChecker.findOperation(method, path);
  if (operation) partnerResponseChecker.checkResponse(operation, response);
}
