import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { openClinic } from "../support/clinics.ts";
import { eventually } from "../support/eventually.ts";
import { endpointRegistered, installationApproved, registerApplication } from "../support/partner-events.ts";
import { request, setUpQueryApi } from "../support/query-api.ts";

/** Number of concurrent slow requests. Higher than the service's number of connections. */
const SLOW_REQUEST_COUNT = 24;

describe("slow reads of one caller", () => {
  const api = setUpQueryApi();

  /** Runs a function while a lock blocks all reads of a table. */
  async function whileLocked(table: string, run: () => Promise<void>): Promise<void> {
    const connection = await api.database.admin.connect();
    try {
      await connection.query(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
      await run();
    } finally {
      await connection.query("ROLLBACK");
      connection.release();
    }
  }

  /** Sends slow requests of one caller. Checks that another caller's request succeeds while they wait for the lock. */
  async function expectOtherReads(
    table: string,
    sendSlow: () => Promise<{ status: number }>,
    sendOther: () => Promise<{ status: number }>,
  ): Promise<void> {
    await whileLocked(table, async () => {
      const slowPromises = Array.from({ length: SLOW_REQUEST_COUNT }, sendSlow);
      await eventually("five slow reads wait for the lock", async () => {
        const sql = "SELECT FROM pg_locks WHERE relation = $1::regclass AND NOT granted";
        return ((await api.database.admin.query(sql, [table])).rowCount ?? 0) >= 5;
      });
      expect((await sendOther()).status).to.equal(200);
      const statuses = new Set((await Promise.all(slowPromises)).map(({ status }) => status));
      expect([...statuses]).to.deep.equal([503]);
    });
  }

  it("the slow reads of a portal user do not delay the reads of other users", async () => {
    const [slowUser, otherUser] = [await openClinic(api.given), await openClinic(api.given)];
    const getServices = () => api.get("/api/v1/services", otherUser.userId);
    expect((await getServices()).status).to.equal(200);
    await expectOtherReads(
      `${READ_MODEL_SCHEMA}.customer`,
      () => api.get("/api/v1/customers", slowUser.userId),
      getServices,
    );
    expect((await api.get("/api/v1/customers", slowUser.userId)).status).to.equal(200);
  });

  it("the slow reads of an application do not delay the reads of other applications", async () => {
    const createPartner = async () => {
      const { clinicId } = await openClinic(api.given);
      const application = await registerApplication(api.given);
      const endpointId = randomUUID();
      await api.given(
        installationApproved(application, clinicId),
        endpointRegistered(application, clinicId, endpointId),
      );
      const headers = {
        Authorization: `Bearer ${await api.createPartnerToken(application)}`,
        "X-SERVICE-Clinic-ID": clinicId,
      };
      return (path: string) => request(`${api.url}/production/v1${path.replace("ENDPOINT", endpointId)}`, headers);
    };
    const [slowPartner, otherPartner] = [await createPartner(), await createPartner()];
    const getAppointments = () => otherPartner("/appointments");
    expect((await getAppointments()).status).to.equal(200);
    const getDeliveries = () => slowPartner("/webhook-endpoints/ENDPOINT/deliveries");
    await expectOtherReads("webhooks.delivery", getDeliveries, getAppointments);
    expect((await getDeliveries()).status).to.equal(200);
  });
});
