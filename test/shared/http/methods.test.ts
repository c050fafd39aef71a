import { request } from "node:http";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import type { createApp } from "../../../shared/http/app.ts";
import { type HttpServer, listen } from "../../../shared/http/listen.ts";
import { listPartnerMethods, listRoutes, routedApps } from "../../support/routed-apps.ts";
import { createSilentApp } from "../../support/silent-app.ts";

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"];
const MONITORING_PATHS = ["/health/live", "/health/ready", "/metrics"];

function send(server: HttpServer, method: string, path: string, headers = {}) {
  return new Promise<{ status: number | undefined; allow: string | undefined; body: string }>((resolve, reject) => {
    request(server.url + path, { method, headers }, async (response) => {
      resolve({ status: response.statusCode, allow: response.headers.allow, body: await text(response) });
    })
      .on("error", reject)
      .end();
  });
}

describe("methods of paths", () => {
  const servers: HttpServer[] = [];
  const serve = async (app: Pick<ReturnType<typeof createApp>, "callback">) => {
    const server = await listen(app.callback(), "127.0.0.1", 0);
    servers.push(server);
    return server;
  };

  after(() => Promise.all(servers.map((server) => server.close())));

  for (const service of ["command", "queryApi", "audit"] as const) {
    const routes = listRoutes(service);

    it(`${service} answers HEAD on every path on which it answers GET`, () => {
      for (const [path, methods] of routes) expect(methods.includes("HEAD"), path).to.equal(methods.includes("GET"));
    });

    it(`${service} answers every other method of each of its paths with 405 and the methods of the path`, async () => {
      const server = await serve(routedApps[service]);
      for (const [path, methods] of routes) {
        const allow = [...(listPartnerMethods(path) ?? methods)].sort().join(", ");
        for (const method of METHODS.filter((name) => !methods.includes(name))) {
          const response = await send(server, method, path.replace(/:\w+/g, "0b5b8d6e-3c60-4c3b-9a53-0f4d8d1f8f10"));
          expect([response.status, response.allow], `${method} ${path}`).to.deep.equal([405, allow]);
        }
      }
    });
  }

  describe("of monitoring", () => {
    let server: HttpServer;
    before(async () => {
      server = await serve(createSilentApp());
    });

    for (const path of MONITORING_PATHS)
      it(`${path} answers GET and HEAD, and every other method with 405`, async () => {
        for (const method of METHODS) {
          const { status, allow, body } = await send(server, method, path);
          const expected = ["GET", "HEAD"].includes(method) ? [200, undefined] : [405, "GET, HEAD"];
          expect([status, allow], method).to.deep.equal(expected);
          expect(body === "", method).to.equal(method === "HEAD");
        }
      });

    it("no method shows a proxy's callers that /metrics exists", async () => {
      for (const method of METHODS) {
        const { status } = await send(server, method, "/metrics", { "X-Forwarded-For": "192.0.2.1" });
        expect(status, method).to.equal(404);
      }
    });
  });
});
