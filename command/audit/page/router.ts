import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type Router from "@koa/router";
import type { RequestState } from "../../../shared/http/app.ts";
import { type Page, servePages, toPage } from "../../../shared/http/pages.ts";
import { createRouter } from "../../../shared/http/router.ts";

/** Allows only files of this origin, no inline or evaluated scripts, and no framing. */
const HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-cache",
};

/** Serves the audit page at GET /audit. The page contains no data; it requests data with the auditor's credential. */
export function createPageRouter(): Router<RequestState> {
  const router = createRouter<RequestState>();
  servePages(router, readSite(), HEADERS);
  return router;
}

const TYPES: Record<string, string> = {
  ".html": "text/html",
  ".css": "text/css",
  ".js": "text/javascript",
  ".svg": "image/svg+xml",
};

/** Folder of the page's files. */
const folder = path.join(import.meta.dirname, "assets");

/** Reads the page at /audit and its files once. */
export function readSite(): Page[] {
  return readdirSync(folder).map((name) => {
    const body = readFileSync(path.join(folder, name));
    const type = TYPES[path.extname(name)];
    if (type === undefined) throw new Error(`no content type is known for the page file ${name}`);
    return toPage(name === "index.html" ? "/audit" : `/audit/${name}`, type, body);
  });
}
