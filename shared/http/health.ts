import type Koa from "koa";

/** Returns the problem of each dependency; null if it is ready. Must have its own time limit. */
export type Readiness = () => Promise<Record<string, string | null>>;

/**
 * Serves GET /health/live (the process answers) and GET /health/ready (all dependencies are ready, else 503 with the
 * problems).
 */
export function health(readiness: Readiness): Koa.Middleware {
  return async (ctx, next) => {
    if (ctx.path === "/health/live") {
      ctx.body = { ok: true };
    } else if (ctx.path === "/health/ready") {
      const parts = await readiness();
      const ok = Object.values(parts).every((problem) => problem === null);
      ctx.status = ok ? 200 : 503;
      ctx.body = { ok, parts };
    } else {
      await next();
    }
  };
}
