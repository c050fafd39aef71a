import type Koa from "koa";
import { Late, within } from "../runtime/within.ts";
import { unavailable } from "./api-error.ts";

/**
 * Answers every request within a time. Each exchange with a server has its own limit, but a request makes several, one
 * after the other, and on a busy machine each may take nearly as long as it may.
 *
 * @param milliseconds from the end of the request's headers on
 * @param code of the 503; the request's outcome is then unknown, and it may be repeated
 */
export function answerWithin(milliseconds: number, code: string): Koa.Middleware {
  return async (_ctx, next) => {
    try {
      await within(milliseconds, next());
    } catch (error) {
      throw error instanceof Late ? unavailable(code, error) : error;
    }
  };
}
