import type Koa from "koa";
import { uuid } from "../../shared/domain/events/fields.ts";

/** A request whose path the router has read. */
export type WithParams<State> = Koa.ParameterizedContext<State> & { params?: Record<string, string> };

/** The id in that part of the path; undefined where it is no UUID: nothing can be there. */
export function pathId<State>(ctx: WithParams<State>, name: string): string | undefined {
  return uuid.safeParse(ctx.params?.[name]).data;
}
