import type Koa from "koa";
import { ApiError } from "./api-error.ts";

/**
 * Sees to it that every request's target is a path: a whole URL is taken for its path (RFC 9112, section 3.2.2), and
 * what is neither, such as `*`, is 400 `malformed_request`.
 */
export function pathOfTarget(): Koa.Middleware {
  return (ctx, next) => {
    const { url = "" } = ctx.req;
    if (!url.startsWith("/")) ctx.req.url = pathOfUrl(url);
    return next();
  };
}

function pathOfUrl(text: string): string {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) throw new ApiError(400, "malformed_request");
  const { pathname, search } = new URL(text);
  return pathname + search;
}
