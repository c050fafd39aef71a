import { expect } from "chai";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { openClinic } from "../support/clinics.ts";
import { eventually } from "../support/eventually.ts";
import { type FaultProxy, startFaultProxy } from "../support/fault-proxy.ts";
import { installationApproved, registerApplication } from "../support/partner-events.ts";
import { type PortalResponse, request, startTestQueryApi, type TestQueryApi } from "../support/query-api.ts";

describe("query-api without Postgres", () => {
  let api: TestQueryApi;
  let proxy: FaultProxy;
  let userId: string;
  let requestPartner: () => Promise<PortalResponse>;
  const requestPortal = () => api.get("/api/v1/clinic/context", userId);

  before(async () => {
    api = await startTestQueryApi(async ({ urls }) => {
      proxy = await startFaultProxy(urls.query);
      return { DATABASE_URL: proxy.url };
    });
    const clinic = await openClinic(api.given);
    userId = clinic.userId;
    const application = await registerApplication(api.given);
    await api.given(installationApproved(application, clinic.clinicId));
    const headers = {
      Authorization: `Bearer ${await api.createPartnerToken(application)}`,
      "X-SERVICE-Clinic-ID": clinic.clinicId,
    };
    requestPartner = () => request(`${api.url}/production/v1/clinic/context`, headers);
  });

  beforeEach(expectSuccess);
  // A failed test must not leave its fault to the next one.
  afterEach(restartConnections);

  /** Closes all connections of the proxy and accepts new ones. */
  function restartConnections() {
    proxy.disconnect();
    proxy.restore();
  }

  async function expectSuccess() {
    for (const readApi of [requestPortal, requestPartner]) {
      const response = await eventually("a response other than 503", async () => {
        const response = await readApi();
        return response.status !== 503 && response;
      });
      expect(response.status).to.equal(200);
    }
    expect((await fetch(`${api.url}/health/ready`)).status).to.equal(200);
  }

  /** Sends more concurrent reads than the pool has connections. Checks that all of them return 503. */
  async function expectUnavailable() {
    const startedAt = performance.now();
    const responsePromises = Array.from({ length: 20 }, (_, index) => (index % 2 ? requestPortal() : requestPartner()));
    for (const { status, headers, body } of await Promise.all(responsePromises)) {
      expect([status, body.error]).to.deep.equal([503, "data_source_unavailable"]);
      expect(Number(headers.get("Retry-After"))).to.be.at.least(1);
      expect(body).to.have.keys("ok", "error", "correlationId", "docUrl");
    }
    // The time limits of connections and statements add up to 2.5 s. The rest is for a busy machine.
    expect(performance.now() - startedAt).to.be.below(20_000);
  }

  it("reads return 503 while Postgres is down, and 200 after Postgres is back", async () => {
    proxy.disconnect();
    await expectUnavailable();
    const readyResponse = await fetch(`${api.url}/health/ready`);
    expect(readyResponse.status).to.equal(503);
    expect((await fetch(`${api.url}/health/live`)).status).to.equal(200);
    restartConnections();
    await expectSuccess();
  });

  it("reads return 503 while Postgres does not respond, and 200 after Postgres is back", async () => {
    proxy.mute();
    await expectUnavailable();
    await expectUnavailable();
    restartConnections();
    await expectSuccess();
  });

  it("reads return 503 while a table is locked, and 200 afterwards", async () => {
    const client = await api.database.admin.connect();
    await client.query("BEGIN");
    await client.query(`LOCK TABLE ${READ_MODEL_SCHEMA}.clinic IN ACCESS EXCLUSIVE MODE`);
    await expectUnavailable();
    await client.query("ROLLBACK");
    client.release();
    await expectSuccess();
  });

  it("reads return 503 while Postgres has no free connections, and 200 afterwards", async () => {
    const { admin, name } = api.database;
    await admin.query(`ALTER DATABASE ${name} CONNECTION LIMIT 0`);
    restartConnections();
    await expectUnavailable();
    await admin.query(`ALTER DATABASE ${name} CONNECTION LIMIT -1`);
    await expectSuccess();
  });

  it("reads return 503 until the read models exist, and 200 afterwards", async () => {
    const { admin } = api.database;
    await admin.query(`ALTER SCHEMA ${READ_MODEL_SCHEMA} RENAME TO elsewhere`);
    await expectUnavailable();
    await admin.query(`ALTER SCHEMA elsewhere RENAME TO ${READ_MODEL_SCHEMA}`);
    await expectSuccess();
  });

  it("a response to an internal error contains no details of the error", async () => {
    await api.database.admin.query(`ALTER TABLE ${READ_MODEL_SCHEMA}.clinic RENAME COLUMN slug TO other`);
    const { status, body } = await requestPortal();
    await api.database.admin.query(`ALTER TABLE ${READ_MODEL_SCHEMA}.clinic RENAME COLUMN other TO slug`);
    expect([status, body.error]).to.deep.equal([500, "internal_error"]);
    expect(body).to.have.keys("ok", "error", "correlationId", "docUrl");
  });
});
