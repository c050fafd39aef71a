import type Koa from "koa";
import bodyParser from "koa-bodyparser";
import { ApiError } from "./api-error.ts";

/** The largest body that is read. */
const LIMIT = "64kb";

/**
 * Reads a JSON body into `ctx.request.body`, whatever JSON it is. Another content type is 415, text that is not
 * JSON is 400 `invalid_json`, a larger one 413 `body_too_large`.
 */
export function jsonBody(): Koa.Middleware {
  const parse = bodyParser({
    enableTypes: ["json"],
    // The content type is judged below, more widely than by the parser's own list.
    detectJSON: () => true,
    strict: false,
    jsonLimit: LIMIT,
    onerror(error) {
      const { status } = error as { status?: number };
      if (status === 413) throw new ApiError(413, "body_too_large", { headers: { Connection: "close" } });
      throw new ApiError(400, "invalid_json", { cause: error });
    },
  });
  return async (ctx, next) => {
    if (!ctx.is("json", "+json")) throw new ApiError(415, "unsupported_media_type");
    await parse(ctx, async () => {
      if (ctx.request.rawBody === "") throw new ApiError(400, "invalid_json");
      await next();
    });
  };
}
