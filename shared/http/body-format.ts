import type Koa from "koa";
import { ApiError } from "./api-error.ts";

/** Maximum size of a request body. */
export const MAX_BODY_SIZE = "64kb";

/** Creates the error for a body that exceeds {@link MAX_BODY_SIZE}. The rest of the body is not read. */
export function createBodyTooLargeError(): ApiError {
  return new ApiError(413, "body_too_large", { headers: { Connection: "close" } });
}

/** Returns true if the headers declare neither a compressed body nor a charset other than UTF-8. */
export function isPlainUtf8Declared(ctx: Koa.Context): boolean {
  const encoding = ctx.get("Content-Encoding") || "identity";
  return encoding.toLowerCase() === "identity" && isUtf8Declared(ctx.get("Content-Type"));
}

/**
 * Matches a parameter of a content type and captures its name and optional value. A quoted value may contain
 * semicolons.
 */
const CONTENT_TYPE_PARAMETER_PATTERN = /;\s*([^\s=;]*)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^\s;]*))?/g;

/** Returns true if all charset parameters of a content type are UTF-8. Malformed parameters are ignored. */
function isUtf8Declared(contentType: string): boolean {
  const parameters = [...contentType.matchAll(CONTENT_TYPE_PARAMETER_PATTERN)];
  const charsetParameters = parameters.filter(([, name]) => name?.toLowerCase() === "charset");
  return charsetParameters.every(([, , charset = ""]) => /^(utf-?8|"utf-?8")$/i.test(charset));
}
