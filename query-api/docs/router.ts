import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import type Router from "@koa/router";
import { createRouter } from "../../shared/http/router.ts";
import { type Page, servePages, toPage } from "../../shared/page/site.ts";
import { partnerReads } from "../partner/reads.ts";
import { createPortalOperations } from "../portal/operations.ts";
import { isRequestSchema, type JsonSchema, type OpenApiDocument } from "./openapi.ts";
import { buildPartnerDocument, type PartnerDocumentOptions } from "./partner-document.ts";
import { buildPortalDocument, type PortalDocumentOptions } from "./portal-document.ts";

export type DocsOptions = PortalDocumentOptions & PartnerDocumentOptions;

/**
 * Response headers of the page and the documents. The page sends requests only to its own origin and cannot be framed.
 * The renderer needs inline styles.
 */
const PAGE_HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
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

/**
 * Converts an internal OpenAPI document to its published form. The internal document forbids additional members in
 * responses. The published document allows them, because a later release can add members. It also describes fixed
 * values without keywords such as `const`, which client generators do not support.
 *
 * @param isClosed returns true for a component that permits no additional members in any release
 */
function toPublishedDocument(
  document: OpenApiDocument,
  isClosed: (name: string, schema: JsonSchema) => boolean,
): OpenApiDocument {
  const { schemas, ...otherComponents } = document.components;
  const publishedSchemas = Object.entries(schemas).map(([name, schema]) => [
    name,
    publishSchema(schema, isClosed(name, schema)),
  ]);
  return { ...document, components: { ...otherComponents, schemas: Object.fromEntries(publishedSchemas) } };
}

function publishSchema(schema: JsonSchema, isClosed: boolean): JsonSchema {
  return JSON.parse(JSON.stringify(schema), function (this: unknown, _key, part) {
    if (!isClosed && part?.additionalProperties === false) delete part.additionalProperties;
    if (typeof part?.const === "boolean" || typeof part?.const === "number") return describeFixedValue(part);
    // In a union, which is an array, generators understand null.
    return part?.type === "null" && !Array.isArray(this) ? { ...part, type: ["string", "null"] } : part;
  });
}

function describeFixedValue({ const: value, description, ...schema }: JsonSchema): JsonSchema {
  const text = `Always \`${value}\`.`;
  return {
    ...schema,
    type: typeof value === "boolean" ? "boolean" : "integer",
    description: description === undefined ? text : `${description} ${text}`,
    // Without an example, readers see the sample value of the type, such as `ok: true` in an error.
    examples: [value],
  };
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
 * Folder with the browser files of Scalar, which renders the documents. The build copies these files next to this
 * module. The npm package is not deployed, because its 300 MB of dependencies are already bundled in the files. Without
 * a build, the files are read from the package.
 */
const rendererFolder = [
  path.join(import.meta.dirname, "renderer"),
  ...(createRequire(import.meta.url).resolve.paths("@scalar/api-reference") ?? []).map((folder) =>
    path.join(folder, "@scalar/api-reference/dist/browser"),
  ),
].find((folder) => existsSync(folder));

export function readSite(): Page[] {
  if (rendererFolder === undefined) throw new Error("@scalar/api-reference is not installed. Run npm ci.");
  const files = [
    ["", "text/html", path.join(assetsFolder, "index.html")],
    ["/reference.css", "text/css", path.join(assetsFolder, "reference.css")],
    ["/reference.js", "text/javascript", path.join(assetsFolder, "reference.js")],
    ["/icon.svg", "image/svg+xml", path.join(assetsFolder, "icon.svg")],
    ...["standalone.esm.js", ...readdirSync(path.join(rendererFolder, "chunks")).map((name) => `chunks/${name}`)]
      .filter((name) => name.endsWith(".js"))
      .map((name) => [`/${name}`, "text/javascript", path.join(rendererFolder, name)] as const),
  ] as const;
  return files.map(([name, type, file]) => toPage(`/docs${name}`, type, readFileSync(file)));
}
