import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type Router from "@koa/router";
import type { RequestState } from "../../../shared/http/app.ts";
import { type Page, servePages, toPage } from "../../../shared/http/pages.ts";
import { createRouter } from "../../../shared/http/router.ts";

/**
 * Headers that restrict the page to files of its own origin, and forbid inline scripts, evaluated scripts and framing.
 */
const PAGE_HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-cache",
};

/**
 * Serves the audit page at GET /audit. The page itself contains no data. The page requests data with the auditor's
 * credential.
 */
export function createPageRouter(): Router<RequestState> {
  const router = createRouter<RequestState>();
  servePages(router, readSite(), PAGE_HEADERS, "audit.page");
  return router;
}

const CONTENT_TYPES: Record<string, string> = {
  ".html": "text/html",
  ".css": "text/css",
  ".js": "text/javascript",
  ".svg": "image/svg+xml",
};

const ASSETS_FOLDER = path.join(import.meta.dirname, "assets");

/** Reads all files of the audit page into memory. `index.html` is served at /audit, the other files below /audit. */
export function readSite(): Page[] {
  return readdirSync(ASSETS_FOLDER).map((name) => {
    const body = readFileSync(path.join(ASSETS_FOLDER, name));
    const type = CONTENT_TYPES[path.extname(name)];
    if (type === undefined) throw new Error(`no content type is known for the page file ${name}`);
    return toPage(name === "index.html" ? "/audit" : `/audit/${name}`, type, body);
  });
}
