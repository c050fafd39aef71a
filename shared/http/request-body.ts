import type { IncomingMessage } from "node:http";
import type Koa from "koa";
import bodyParser from "koa-bodyparser";
import type { ErrorDetail } from "../domain/domain-error.ts";
import { findJsonError } from "../domain/validation/json-error.ts";
import { findJsonLoss } from "../domain/validation/json-loss.ts";
import { ApiError } from "./api-error.ts";

/**
 * Parses a JSON request body into `ctx.request.body`, without validating its shape.
 *
 * @throws {ApiError} 400 `invalid_json` if the body is empty or not JSON in UTF-8, repeats a name in an object, or
 *   contains a number that JavaScript cannot store exactly
 * @throws {ApiError} 413 `body_too_large` if the body exceeds 64 KiB or has more than 1,000 values
 * @throws {ApiError} 415 `unsupported_media_type` if the headers declare a compressed body, a content type other than
 *   JSON, or a charset other than UTF-8
 */
export function parseJsonBody(): Koa.Middleware {
  const parse = bodyParser({
    enableTypes: ["json"],
    // The content type is checked below, because the parser accepts too few JSON types.
    detectJSON: () => true,
    strict: false,
    jsonLimit: MAX_BODY_SIZE,
    onerror(error) {
      const { status, body } = error as { status?: number; body?: string };
      if (status === 413) throw createBodyTooLargeError();
      throw createJsonError(describeJsonError(body ?? ""), error);
    },
  });
  return async (ctx, next) => {
    if (!ctx.is("json", "+json") || !isPlainUtf8Declared(ctx)) throw new ApiError(415, "unsupported_media_type");
    const isUtf8 = watchUtf8(ctx.req);
    await parse(ctx, async () => {
      const rawBody = String(ctx.request.rawBody);
      if (!isUtf8()) throw createJsonError("must be encoded in UTF-8");
      if (rawBody === "") throw createJsonError("must not be empty");
      if (hasMoreValues(ctx.request.body, MAX_VALUES)) throw createBodyTooLargeError(TOO_MANY_VALUES);
      const loss = findJsonLoss(rawBody);
      if (loss?.number) throw createJsonError("must contain only numbers that can be stored exactly");
      if (loss) throw createJsonError("must not contain an object with the same name twice");
      await next();
    });
  };
}

function createJsonError(message: string, cause?: unknown): ApiError {
  return new ApiError(400, "invalid_json", { details: [{ path: "body", message }], cause });
}

/** Describes why the parser refused a text, without quoting the text. */
function describeJsonError(text: string): string {
  const index = findJsonError(text);
  if (index === undefined) return "must not contain a field __proto__";
  const lines = text.slice(0, index).split("\n");
  return `is not valid JSON at line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`;
}

/** Returns a middleware that parses the JSON body like {@link parseJsonBody}, if the request has a body. */
export function parseOptionalJsonBody(): Koa.Middleware {
  const parse = parseJsonBody();
  return async (ctx, next) => ((await hasBody(ctx.req)) ? parse(ctx, next) : next());
}

/** Returns true if a request has a body. Waits for the first byte or the end of a chunked body, which can be empty. */
async function hasBody(request: IncomingMessage): Promise<boolean> {
  const { headers } = request;
  if (headers["transfer-encoding"] === undefined) return Number(headers["content-length"] ?? 0) > 0;
  await new Promise((resolve) => request.once("readable", resolve).once("end", resolve).once("close", resolve));
  const chunk: Buffer | null = request.read();
  if (chunk) request.unshift(chunk);
  return chunk !== null || !request.complete;
}

/**
 * Maximum number of fields in a form, or of values in a JSON body, including objects and arrays. A schema checks each
 * value and describes each problem, so 30,000 invalid values would block all other requests of the process for half a
 * second.
 */
const MAX_VALUES = 1_000;

const TOO_MANY_VALUES: ErrorDetail[] = [{ path: "body", message: `must have at most ${MAX_VALUES} values` }];

function hasMoreValues(body: unknown, maxCount: number): boolean {
  const values = [body];
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index];
    if (typeof value !== "object" || value === null) continue;
    for (const member of Object.values(value)) {
      if (values.length >= maxCount) return true;
      values.push(member);
    }
  }
  return false;
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

/** Names and values of a form, in the order in which they were sent. A name can occur several times. */
export type FormFields = readonly (readonly [name: string, value: string])[];

export function hasFormBody(ctx: Koa.Context): boolean {
  return Boolean(ctx.is("urlencoded"));
}

/**
 * Parses the body of a form into `ctx.request.body`, as {@link FormFields}. The caller checks the content type.
 *
 * @throws {ApiError} 400 `invalid_request` if the body is not a form in UTF-8
 * @throws {ApiError} 413 `body_too_large` if the body exceeds 64 KiB or has more than 1,000 fields
 * @throws {ApiError} 415 `unsupported_media_type` if the headers declare a compressed body or a charset other than
 *   UTF-8
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

/** @throws {ApiError} 400 `invalid_request`; 413 `body_too_large` */
function decodeForm(text: string): FormFields {
  // An encoder escapes all other characters. The parser has replaced invalid UTF-8, so the replacement is refused, too.
  if (!/^[\x20-\x7e]*$/.test(text)) throw createFormError();
  const fields = text.split("&").filter((field) => field !== "");
  if (fields.length > MAX_VALUES) throw createBodyTooLargeError(TOO_MANY_VALUES);
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

const MAX_BODY_SIZE = "64kb";

function createBodyTooLargeError(details?: ErrorDetail[]): ApiError {
  return new ApiError(413, "body_too_large", { headers: { Connection: "close" }, ...(details && { details }) });
}

/** Returns true if the headers declare neither a compressed body nor a charset other than UTF-8. */
function isPlainUtf8Declared(ctx: Koa.Context): boolean {
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
