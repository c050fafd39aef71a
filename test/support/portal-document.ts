import { buildPortalDocument } from "../../query-api/docs/portal-document.ts";
import { createPortalOperations } from "../../query-api/portal/operations.ts";
import { createResponseChecker, type ResponseChecker } from "./openapi.ts";

/** Creates a checker for the portal API's OpenAPI document. */
export function createPortalChecker(operatorName = "Test Operator"): ResponseChecker {
  const settings = { operatorName, cookieName: "sb-test-auth-token" };
  return createResponseChecker(buildPortalDocument(createPortalOperations(settings), settings));
}
