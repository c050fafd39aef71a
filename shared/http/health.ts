import type Koa from "koa";

/** Names each thing that the service needs, and says why it is not ready (null: it is). Bounded in time by itself. */
export type Readiness = () => Promise<Record<string, string | null>>;

/** GET /health/live: the process answers. GET /health/ready: it can do its job; 503 with the reason where not. */
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
