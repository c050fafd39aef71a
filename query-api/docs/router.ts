import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import type Router from "@koa/router";
import { createRouter } from "../../shared/http/router.ts";
import { type Page, servePages, toPage } from "../../shared/page/site.ts";
import { partnerReads } from "../partner/reads.ts";
import { createPortalOperations } from "../portal/operations.ts";
import { isRequestSchema, type OpenApiDocument } from "./openapi.ts";
import { buildPartnerDocument, type PartnerDocumentOptions } from "./partner-document.ts";
import { buildPortalDocument, type PortalDocumentOptions } from "./portal-document.ts";
import { toPublishedDocument } from "./published.ts";

export type DocsOptions = PortalDocumentOptions & PartnerDocumentOptions;

/**
 * Response headers of the page and the documents. The page loads only files from its own origin and cannot be framed.
 */
const PAGE_HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cache-Control": "public, max-age=300",
};

/** Serves GET /, GET /docs and both OpenAPI documents without authentication. The documents are built once, at startup. */
export function createDocsRouter(options: DocsOptions): Router {
  const portalDocument = toPublishedDocument(
    buildPortalDocument(createPortalOperations(options), options),
    // The agreed bodies permit no additional members, or are open already.
    (name, { additionalProperties }) => name !== "Error" && additionalProperties === false,
  );
  const partnerDocument = toPublishedDocument(buildPartnerDocument(partnerReads, options), isRequestSchema);
  const pages = [
    toDocumentPage("/api/v1/openapi.json", portalDocument),
    toDocumentPage("/partner/v1/openapi.json", partnerDocument),
    ...readSite(),
    toPage("/", "text/html", Buffer.from(renderSignpost(portalDocument, partnerDocument))),
  ];
  const router = createRouter();
  servePages(router, pages, PAGE_HEADERS, "docs");
  return router;
}

function toDocumentPage(path: string, document: OpenApiDocument): Page {
  return toPage(path, "application/json", Buffer.from(JSON.stringify(document)));
}

/** Renders the page at `/`, which links to all pages of the product. */
function renderSignpost(portalDocument: OpenApiDocument, partnerDocument: OpenApiDocument): string {
  return readFileSync(path.join(assetsFolder, "signpost.html"), "utf8")
    .replace("{{portalVersion}}", portalDocument.info.version)
    .replace("{{partnerVersion}}", partnerDocument.info.version);
}

const assetsFolder = path.join(import.meta.dirname, "assets");

/**
 * Swagger UI's files come from its npm package, so the lock file determines their version. The renderers Scalar and
 * Redoc need inline styles, which the content security policy forbids.
 */
const rendererFolder = path.dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));

const siteFiles: readonly [path: string, type: string, file: string][] = [
  ["/docs", "text/html", path.join(assetsFolder, "index.html")],
  ["/docs/docs.css", "text/css", path.join(assetsFolder, "docs.css")],
  ["/docs/renderer.css", "text/css", path.join(assetsFolder, "renderer.css")],
  ["/docs/operations.css", "text/css", path.join(assetsFolder, "operations.css")],
  ["/docs/docs.js", "text/javascript", path.join(assetsFolder, "docs.js")],
  ["/docs/curl.js", "text/javascript", path.join(assetsFolder, "curl.js")],
  ["/docs/entries.js", "text/javascript", path.join(assetsFolder, "entries.js")],
  ["/docs/navigation.js", "text/javascript", path.join(assetsFolder, "navigation.js")],
  ["/docs/icon.svg", "image/svg+xml", path.join(assetsFolder, "icon.svg")],
  ["/docs/swagger-ui.css", "text/css", path.join(rendererFolder, "swagger-ui.css")],
  ["/docs/swagger-ui-bundle.js", "text/javascript", path.join(rendererFolder, "swagger-ui-bundle.js")],
];

export function readSite(): Page[] {
  return siteFiles.map(([path, type, file]) => toPage(path, type, readFileSync(file)));
}
