import type { IncomingMessage } from "node:http";
import type Koa from "koa";
import bodyParser from "koa-bodyparser";
import { ApiError } from "./api-error.ts";
import { createBodyTooLargeError, isPlainUtf8Declared, MAX_BODY_SIZE } from "./body-format.ts";

/**
 * Parses a JSON request body into `ctx.request.body`, without validating its shape.
 *
 * @throws {ApiError} 400 `invalid_json` if the body is not JSON in UTF-8; 413 `body_too_large` if the body exceeds 64
 *   KiB; 415 `unsupported_media_type` if the headers declare a content type other than JSON, a charset other than
 *   UTF-8, or a compressed body
 */
export function parseJsonBody(): Koa.Middleware {
  const parse = bodyParser({
    enableTypes: ["json"],
    // The content type is checked below, because the parser accepts too few JSON types.
    detectJSON: () => true,
    strict: false,
    jsonLimit: MAX_BODY_SIZE,
    onerror(error) {
      const { status } = error as { status?: number };
      if (status === 413) throw createBodyTooLargeError();
      throw new ApiError(400, "invalid_json", { cause: error });
    },
  });
  return async (ctx, next) => {
    if (!ctx.is("json", "+json") || !isPlainUtf8Declared(ctx)) throw new ApiError(415, "unsupported_media_type");
    const isUtf8 = watchUtf8(ctx.req);
    await parse(ctx, async () => {
      if (ctx.request.rawBody === "" || !isUtf8()) throw new ApiError(400, "invalid_json");
      await next();
    });
  };
}

/**
 * Checks for invalid UTF-8 while the parser reads a body. The parser silently replaces invalid bytes, so without this
 * check, changed text would be stored.
 *
 * @returns a function to call after the body was read, which returns true if the whole body was valid UTF-8
 */
function watchUtf8(body: IncomingMessage): () => boolean {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let isValid = true;
  const decode = (bytes?: Buffer) => {
    try {
      decoder.decode(bytes, { stream: bytes !== undefined });
    } catch {
      isValid = false;
    }
  };
  body.on("data", decode);
  return () => {
    decode();
    return isValid;
  };
}
