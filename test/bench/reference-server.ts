/**
 * Minimal Koa application: the lowest possible cost of a portal read with the same libraries. Verifies the session with
 * jose, reads one stored JSON document with one query, and sends it. The first argument contains the settings as JSON.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { jwtVerify } from "jose";
import Koa from "koa";
import pg from "pg";

const { databaseUrl, secret, issuer, cookieName } = JSON.parse(process.argv[2] ?? "") as Record<
  "databaseUrl" | "secret" | "issuer" | "cookieName",
  string
>;
const key = await crypto.subtle.importKey("raw", Buffer.from(secret), { name: "HMAC", hash: "SHA-256" }, false, [
  "verify",
]);
const pool = new pg.Pool({ connectionString: databaseUrl, max: 6 });
const app = new Koa();
app.use(async (ctx) => {
  const cookie = ctx.cookies.get(cookieName) ?? "";
  const session = JSON.parse(Buffer.from(cookie.slice("base64-".length), "base64url").toString());
  const { payload } = await jwtVerify(session.access_token, key, { issuer, audience: "authenticated" });
  if (payload.sub === undefined) ctx.throw(401);
  const { rows } = await pool.query({
    name: "document",
    text: "SELECT body FROM reference_document WHERE path = $1",
    values: [ctx.path],
  });
  ctx.type = "application/json";
  ctx.body = rows[0].body;
});
const server = createServer(app.callback()).listen(0, "127.0.0.1");
await once(server, "listening");
process.send?.((server.address() as AddressInfo).port);
