import path from "node:path";
import type Router from "@koa/router";
import type { RequestState } from "../../../shared/http/app.ts";
import { createRouter } from "../../../shared/http/router.ts";
import { PAGE_HEADERS, type Page, readSite, servePages } from "../../../shared/page/site.ts";

/**
 * Serves the audit page at GET /audit. The page itself contains no data. The page requests data with the auditor's
 * credential.
 */
export function createPageRouter(): Router<RequestState> {
  const router = createRouter<RequestState>();
  servePages(router, readAuditSite(), PAGE_HEADERS, "audit.page");
  return router;
}

/** Reads the audit page and the files that it loads. */
export function readAuditSite(): Page[] {
  return readSite("/audit", path.join(import.meta.dirname, "assets"));
}
