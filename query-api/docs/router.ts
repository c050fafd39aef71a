import type Router from "@koa/router";
import { type Page, servePages, toPage } from "../../shared/http/pages.ts";
import { createRouter } from "../../shared/http/router.ts";
import { partnerReads } from "../partner/reads.ts";
import { portalOperations } from "../portal/operations.ts";
import type { OpenApiDocument } from "./openapi.ts";
import { type PartnerDocumentOptions, partnerDocument } from "./partner-document.ts";
import { type PortalDocumentOptions, portalDocument } from "./portal-document.ts";
import { readSite } from "./site.ts";

export type DocsOptions = PortalDocumentOptions & PartnerDocumentOptions;

/** The page loads only files of this origin. It runs no inline code and cannot be framed. */
const PAGE_HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cache-Control": "public, max-age=300",
};

/** Serves GET /docs and both OpenAPI documents. They are public and built once, at start. */
export function createDocsRouter(options: DocsOptions): Router {
  const pages = [
    toDocumentPage("/api/v1/openapi.json", portalDocument(portalOperations(options), options)),
    toDocumentPage("/partner/v1/openapi.json", partnerDocument(partnerReads, options)),
    ...readSite(),
  ];
  const router = createRouter();
  servePages(router, pages, PAGE_HEADERS);
  return router;
}

function toDocumentPage(path: string, document: OpenApiDocument): Page {
  return toPage(path, "application/json", Buffer.from(JSON.stringify(document)));
}
