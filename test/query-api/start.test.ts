import { expect } from "chai";
import pg from "pg";
import { startQueryApi } from "../../query-api/start.ts";
import { ConfigError } from "../../shared/runtime/config.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { eventually } from "../support/eventually.ts";
import { queryEnvironment as env } from "../support/query-environment.ts";
import { createTestDatabase } from "../support/stack.ts";

async function expectStartError(settings: NodeJS.ProcessEnv): Promise<Error> {
  return startQueryApi(settings).then(
    async (service) => {
      await service.stop();
      throw new Error("The service started, although an error was expected.");
    },
    (error: Error) => error,
  );
}

describe("startQueryApi", () => {
  it("startQueryApi fails with a one-line error that names every missing setting", async () => {
    const error = await expectStartError({ PORT: "0" });
    expect(error).to.be.instanceOf(ConfigError);
    for (const name of ["DATABASE_URL", "PORTAL_COOKIE_NAME", "TOKEN_JWKS_URL", "OPERATOR_NAME"])
      expect(error.message).to.contain(name);
    expect(error.message).to.not.contain("\n");
  });

  it("startQueryApi requires a secret or public keys to verify portal sessions", async () => {
    const { PORTAL_JWT_SECRET: _, ...otherSettings } = env;
    const error = await expectStartError(otherSettings);
    expect(error).to.be.instanceOf(ConfigError);
    expect(error.message).to.match(/PORTAL_JWT_SECRET or PORTAL_JWKS_URL/);
  });

  it("startQueryApi fails if the port is in use", async () => {
    const firstService = await startQueryApi(env);
    const error = await expectStartError({ ...env, PORT: new URL(firstService.url).port });
    await firstService.stop();
    expect(error).to.be.instanceOf(StartError);
  });

  it("the connections to Postgres are open before the first request", async () => {
    const { urls, drop } = await createTestDatabase();
    const observer = new pg.Client(urls.projection);
    await observer.connect();
    // On a busy machine, a start may open fewer connections in its time.
    await eventually("all connections are open after a start", async () => {
      const service = await startQueryApi({ ...env, DATABASE_URL: urls.query, DATABASE_POOL_SIZE: "3" });
      const { rows } = await observer.query(
        `SELECT application_name AS name, count(*)::integer FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'clinic-query-api%' GROUP BY name ORDER BY name`,
      );
      await service.stop();
      return (
        rows.map(({ name, count }) => `${name}: ${count}`).join() === "clinic-query-api: 3,clinic-query-api limits: 4"
      );
    });
    await observer.end();
    await drop();
  });

  describe("query-api without Postgres and key server", () => {
    let service: Awaited<ReturnType<typeof startQueryApi>>;

    before(async () => {
      service = await startQueryApi(env);
    });

    after(() => service.stop());

    const expectedResponses: [string, number, string][] = [
      ["/none", 404, "not_found"],
      ["/api/v1/nothing", 404, "not_found"],
      ["/api/v1/mobile/pets", 410, "operation_retired"],
      ["/api/v1/clinics", 401, "authentication_required"],
      ["/production/v1/clinic/context", 401, "missing_token"],
      ["/production/v1/nothing", 404, "not_found"],
      ["/staging/v1/clinic/context", 404, "not_found"],
    ];

    for (const [path, status, code] of expectedResponses)
      it(`GET ${path} returns ${status} ${code} while all servers are unavailable`, async () => {
        const response = await fetch(service.url + path);
        const body = (await response.json()) as { correlationId: string };
        expect(response.status).to.equal(status);
        expect(body).to.deep.equal({
          ok: false,
          error: code,
          correlationId: body.correlationId,
          docUrl: `/docs#error-${code}`,
        });
        expect(response.headers.get("X-Correlation-ID")).to.equal(body.correlationId);
        expect(response.headers.get("Cache-Control")).to.equal("no-store");
      });

    it("a response of a deprecated operation names the dates of its deprecation and of its end", async () => {
      const deprecatedPaths = "/production/v1/clinic/=2026-06-01/2027-06-01";
      const otherService = await startQueryApi({ ...env, DEPRECATED_PATHS: deprecatedPaths });
      const readHeaders = async (path: string) => {
        const { headers } = await fetch(otherService.url + path);
        return [headers.get("Deprecation"), headers.get("Sunset")];
      };
      expect(await readHeaders("/production/v1/clinic/context")).to.deep.equal([
        "@1780272000",
        "Tue, 01 Jun 2027 00:00:00 GMT",
      ]);
      expect(await readHeaders("/production/v1/installations")).to.deep.equal([null, null]);
      await otherService.stop();
    });

    it("the query API is live but not ready if Postgres is unavailable", async () => {
      expect((await fetch(`${service.url}/health/live`)).status).to.equal(200);
      expect((await fetch(`${service.url}/health/ready`)).status).to.equal(503);
    });

    it("a partner read returns 503 if the token keys cannot be fetched", async () => {
      const header = Buffer.from('{"alg":"EdDSA","typ":"at+jwt","kid":"one"}').toString("base64url");
      const token = `${header}.${Buffer.from("{}").toString("base64url")}.AAAA`;
      const response = await fetch(`${service.url}/production/v1/clinic/context`, {
        headers: { Authorization: `Bearer ${token}` },
      });
      expect(response.status).to.equal(503);
      expect(response.headers.get("Retry-After")).to.match(/^\d+$/);
      expect(await response.json()).to.include({ ok: false, error: "token_keys_unavailable" });
    });
  });
});
