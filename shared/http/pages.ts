import { createHash } from "node:crypto";
import type Router from "@koa/router";
import type Koa from "koa";
import { ApiError } from "./api-error.ts";

/** A static file that a service serves. */
export interface Page {
  path: string;
  type: string;
  body: Buffer;
  /** Strong ETag: a hash of the body. */
  etag: string;
}

export function toPage(path: string, type: string, body: Buffer): Page {
  return { path, type, body, etag: `"${createHash("sha256").update(body).digest("base64url")}"` };
}

/**
 * Serves each page at its path with the given headers, without authentication. Returns 304 if the client already has
 * the current version.
 *
 * @param operation name of all pages in metrics
 */
export function servePages(
  router: Pick<Router, "register" | "all">,
  pages: readonly Page[],
  headers: Readonly<Record<string, string>>,
  operation: string,
): void {
  for (const { path, type, body, etag } of pages) {
    const sendPage: Koa.Middleware = (ctx) => {
      ctx.set({ ...headers, ETag: etag });
      ctx.type = type;
      ctx.status = 200;
      if (ctx.fresh) ctx.status = 304;
      else ctx.body = body;
    };
    router.register(path, ["GET", "HEAD"], sendPage, { name: operation });
    router.all(path, () => {
      throw new ApiError(405, "method_not_allowed", { headers: { Allow: "GET, HEAD" } });
    });
  }
}
