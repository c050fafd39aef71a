import { buildPortalDocument } from "../../query-api/docs/portal-document.ts";
import { createPortalOperations } from "../../query-api/portal/operations.ts";
import { createResponseChecker, type ResponseChecker } from "./openapi.ts";

/** Creates a checker of responses against the exact OpenAPI document of the portal API. */
export function createPortalChecker(operatorName = "Test Operator"): ResponseChecker {
  const settings = { operatorName, cookieName: "sb-test-auth-token" };
  return createResponseChecker(buildPortalDocument(createPortalOperations(settings), settings));
}
