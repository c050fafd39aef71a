import Router from "@koa/router";
import { ApiError } from "../../../shared/http/api-error.ts";
import type { RequestState } from "../../../shared/http/app.ts";
import { readSite } from "./site.ts";

/** Only this origin's own files, nothing inline, nothing evaluated, in nobody's frame. */
const HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-cache",
};

/** GET /audit: a page for people. It holds nothing by itself; what it shows it asks for with the auditor's credential. */
export function createPageRouter(): Router<RequestState> {
  const router = new Router<RequestState>({ strict: true });
  for (const { path, type, body, etag } of readSite()) {
    router.register(path, ["GET", "HEAD"], (ctx) => {
      ctx.set({ ...HEADERS, ETag: etag });
      ctx.type = type;
      ctx.status = 200;
      if (ctx.fresh) ctx.status = 304;
      else ctx.body = body;
    });
    router.all(path, () => {
      throw new ApiError(405, "method_not_allowed", { headers: { Allow: "GET, HEAD" } });
    });
  }
  // The page's own files are named from here, without a slash at the end.
  router.get("/audit/", (ctx) => ctx.redirect("/audit"));
  return router;
}
