import type { JSONWebKeySet } from "jose";
import type Koa from "koa";
import type { RequestState } from "../../shared/http/app.ts";

/** Whoever verifies tokens may keep the keys this long. Seconds. */
const KEEP = 300;

/** GET /.well-known/jwks.json: the public keys of access tokens. */
export function publishKeys(jwks: JSONWebKeySet): Koa.Middleware<RequestState> {
  return (ctx) => {
    ctx.set("Cache-Control", `public, max-age=${KEEP}`);
    ctx.body = jwks;
  };
}
