import Router from "@koa/router";
import { ApiError } from "../../shared/http/api-error.ts";
import { partnerReads } from "../partner/reads.ts";
import { portalOperations } from "../portal/operations.ts";
import type { OpenApiDocument } from "./openapi.ts";
import { type PartnerDocumentOptions, partnerDocument } from "./partner-document.ts";
import { type PortalDocumentOptions, portalDocument } from "./portal-document.ts";
import { type Page, readSite, toPage } from "./site.ts";

export type DocsOptions = PortalDocumentOptions & PartnerDocumentOptions;

/** Only this origin's own files, nothing inline, nothing evaluated, in nobody's frame. */
const PAGE_HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cache-Control": "public, max-age=300",
};

/** GET /docs and both OpenAPI documents: public, made once at start. */
export function createDocsRouter(options: DocsOptions): Router {
  const pages = [
    toDocumentPage("/api/v1/openapi.json", portalDocument(portalOperations(options), options)),
    toDocumentPage("/partner/v1/openapi.json", partnerDocument(partnerReads, options)),
    ...readSite(),
  ];
  const router = new Router();
  for (const { path, type, body, etag } of pages) {
    router.register(path, ["GET", "HEAD"], (ctx) => {
      ctx.set({ ...PAGE_HEADERS, ETag: etag });
      ctx.type = type;
      ctx.status = 200;
      if (ctx.fresh) ctx.status = 304;
      else ctx.body = body;
    });
    router.all(path, () => {
      throw new ApiError(405, "method_not_allowed", { headers: { Allow: "GET, HEAD" } });
    });
  }
  return router;
}

function toDocumentPage(path: string, document: OpenApiDocument): Page {
  return toPage(path, "application/json", Buffer.from(JSON.stringify(document)));
}
