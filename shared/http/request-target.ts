import type Koa from "koa";
import { ApiError } from "./api-error.ts";

/**
 * Replaces a request target in absolute form with its path and query (RFC 9112, section 3.2.2). Refuses any other
 * target that is not a path, such as `*`, with 400 `malformed_request`.
 */
export function normalizeTarget(): Koa.Middleware {
  return (ctx, next) => {
    const { url = "" } = ctx.req;
    if (!url.startsWith("/")) ctx.req.url = extractPath(url);
    return next();
  };
}

/**
 * Extracts path and query exactly as the client sent them. The path is not taken from `URL`, which would resolve dot
 * segments and thereby accept several spellings of a path.
 */
function extractPath(text: string): string {
  const [, path] = /^https?:\/\/[^/?#]+([^#]*)/i.exec(text) ?? [];
  if (path === undefined || !URL.canParse(text)) throw new ApiError(400, "malformed_request");
  return path.startsWith("/") ? path : `/${path}`;
}
