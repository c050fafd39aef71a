import type Koa from "koa";
import { ApiError } from "./api-error.ts";

/**
 * Replaces a request target in absolute form by its path and query (RFC 9112, section 3.2.2). Any other target that
 * is not a path, such as `*`, is 400 `malformed_request`.
 */
export function pathOfTarget(): Koa.Middleware {
  return (ctx, next) => {
    const { url = "" } = ctx.req;
    if (!url.startsWith("/")) ctx.req.url = pathOfUrl(url);
    return next();
  };
}

/** Extracts the path as it was sent. `URL` would resolve dot segments, so that one path had several spellings. */
function pathOfUrl(text: string): string {
  const [, path] = /^https?:\/\/[^/?#]+([^#]*)/i.exec(text) ?? [];
  if (path === undefined || !URL.canParse(text)) throw new ApiError(400, "malformed_request");
  return path.startsWith("/") ? path : `/${path}`;
}
