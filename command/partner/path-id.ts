import type Koa from "koa";
import { uuid } from "../../shared/events/fields.ts";
import { ApiError } from "../../shared/http/api-error.ts";

/** A request whose path the router has read. */
export type WithParams<State> = Koa.ParameterizedContext<State> & { params?: Record<string, string> };

/** @throws {ApiError} 404 `not_found` where that part of the path is no UUID: nothing can be there */
export function pathId<State>(ctx: WithParams<State>, name: string): string {
  const id = uuid.safeParse(ctx.params?.[name]).data;
  if (id === undefined) throw new ApiError(404, "not_found");
  return id;
}
