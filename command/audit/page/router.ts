import type Router from "@koa/router";
import type { RequestState } from "../../../shared/http/app.ts";
import { servePages } from "../../../shared/http/pages.ts";
import { createRouter } from "../../../shared/http/router.ts";
import { readSite } from "./site.ts";

/** Only this origin's own files, nothing inline, nothing evaluated, in nobody's frame. */
const HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-cache",
};

/** GET /audit: a page for people. It holds nothing by itself; what it shows it asks for with the auditor's credential. */
export function createPageRouter(): Router<RequestState> {
  const router = createRouter<RequestState>();
  servePages(router, readSite(), HEADERS);
  return router;
}
