import type Koa from "koa";
import bodyParser from "koa-bodyparser";
import { ApiError } from "./api-error.ts";
import { createBodyTooLargeError, isPlainUtf8Declared, MAX_BODY_SIZE } from "./body-format.ts";

/** Names and values of a form, in the order in which they were sent. A name can occur several times. */
export type FormFields = readonly (readonly [name: string, value: string])[];

/** Returns true if the request's content type is `application/x-www-form-urlencoded`. */
export function hasFormBody(ctx: Koa.Context): boolean {
  return Boolean(ctx.is("urlencoded"));
}

/**
 * Parses the body of a form into `ctx.request.body`, as {@link FormFields}. The caller checks the content type.
 *
 * @throws {ApiError} 400 `invalid_request` if the body is not a form in UTF-8; 413 `body_too_large` if the body exceeds
 *   64 KiB; 415 `unsupported_media_type` if the headers declare a charset other than UTF-8 or a compressed body
 */
export function parseFormBody(): Koa.Middleware {
  const parse = bodyParser({
    enableTypes: ["text"],
    extendTypes: { text: ["urlencoded"] },
    textLimit: MAX_BODY_SIZE,
    onerror(error) {
      throw (error as { status?: number }).status === 413 ? createBodyTooLargeError() : createFormError(error);
    },
  });
  return async (ctx, next) => {
    if (!isPlainUtf8Declared(ctx)) throw new ApiError(415, "unsupported_media_type");
    await parse(ctx, async () => {
      ctx.request.body = decodeForm(String(ctx.request.body));
      await next();
    });
  };
}

/** @throws {ApiError} 400 `invalid_request` */
function decodeForm(text: string): FormFields {
  // An encoder escapes all other characters. The parser has replaced invalid UTF-8, so the replacement is refused, too.
  if (!/^[\x20-\x7e]*$/.test(text)) throw createFormError();
  const fields = text.split("&").filter((field) => field !== "");
  return fields.map((field) => {
    const [name = "", ...values] = field.split("=");
    const [decodedName, value] = [decodeFormText(name), decodeFormText(values.join("="))];
    if (decodedName === undefined || value === undefined) throw createFormError();
    return [decodedName, value];
  });
}

/**
 * Decodes a name or a value of a form.
 *
 * @returns undefined if an escape sequence is incomplete or not UTF-8
 */
export function decodeFormText(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}

function createFormError(cause?: unknown): ApiError {
  const details = [{ path: "body", message: "must be a form in UTF-8" }];
  return new ApiError(400, "invalid_request", { details, cause });
}
