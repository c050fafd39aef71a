import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import type pg from "pg";
import { confirmAppointment } from "../../command/operations/appointment-operations.ts";
import { createSessionCookie } from "../../deploy/local/demo-data/credentials.ts";
import type { Difference } from "../../projection/engine/compare-tables.ts";
import { rebuild } from "../../projection/engine/rebuild.ts";
import { verify } from "../../projection/engine/verify.ts";
import { readModels } from "../../projection/read-models/all.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { createTestDataKeys } from "../support/data-keys.ts";
import { eventually } from "../support/eventually.ts";
import { createTestOperatorContext, sendRequest } from "../support/partner.ts";
import { type Partner, type PartnerApi, startPartnerApi } from "../support/partner-api.ts";
import { grantOwnership } from "./world.ts";

const logger = createLogger("test", "fatal");
const signal = new AbortController().signal;
const PORTAL = {
  cookieName: "sb-test-auth-token",
  jwtIssuer: "http://portal.test",
  jwtSecret: "0".repeat(32),
};

describe("sandboxes in the read models", () => {
  let api: PartnerApi;
  let client: EventStoreDBClient;
  let pool: pg.Pool;

  before(async () => {
    api = await startPartnerApi();
    client = connectEventStore(api.eventstoreUrl, "test");
    const url = api.database.urls.projection;
    pool = createPool({ url, applicationName: "test", size: 4, statementTimeoutMs: 10_000, logger });
  });
  after(async () => {
    await Promise.all([pool.end(), client.dispose()]);
    await api.stop();
  });

  const getSandbox = async (partner: Partner) => (await partner.request("GET", "/sandbox")).body.sandbox;
  const createAppointment = async (partner: Partner, sandbox: Awaited<ReturnType<typeof getSandbox>>) => {
    const { status, body } = await partner.request("POST", "/appointments", {
      headers: { "X-SERVICE-Clinic-ID": sandbox.clinicId, "Idempotency-Key": randomUUID() },
      body: {
        branchId: sandbox.branches[0].id,
        animalId: sandbox.animals[0].id,
        scheduledAt: new Date(Date.now() + 3 * 86_400_000).toISOString(),
      },
    });
    expect(status, JSON.stringify(body)).to.equal(201);
    return body.appointment.id as string;
  };
  /** Returns the bodies of all responses in which a partner can read its sandbox. */
  const readTexts = async (partner: Partner, clinicId: string) => {
    const headers = { "X-SERVICE-Clinic-ID": clinicId };
    const weekQuery = `from=${new Date(Date.now() - 5 * 86_400_000).toISOString().slice(0, 10)}T00:00:00Z`;
    const responses = await Promise.all([
      partner.request("GET", "/sandbox"),
      partner.request("GET", "/clinic/context", { headers }),
      partner.request("GET", `/appointments?limit=250&${weekQuery}`, { headers }),
    ]);
    expect(responses.map(({ status }) => status)).to.deep.equal([200, 200, 200]);
    return responses.map(({ text }) => text);
  };

  it("the read models of a sandbox match the log after several resets and after a rebuild", async () => {
    const partners = [await api.createPartner(), await api.createPartner()];
    const lastAppointmentIds: string[] = [];
    for (const partner of partners) {
      for (let round = 0; round < 3; round += 1) {
        const sandbox = await getSandbox(partner);
        const { clinicId } = sandbox;
        const appointmentId = await createAppointment(partner, sandbox);
        await confirmAppointment(api.command.log, { clinicId, appointmentId }, createTestOperatorContext());
        if (round === 2) lastAppointmentIds.push(appointmentId);
        else expect((await partner.request("POST", "/sandbox/reset")).status).to.equal(200);
      }
    }
    const clinicIds = await Promise.all(
      partners.map(async (partner) => (await getSandbox(partner)).clinicId as string),
    );
    const readAllTexts = () =>
      Promise.all(partners.map((partner, index) => readTexts(partner, clinicIds[index] as string)));
    await eventually("the last confirmations are read", async () => {
      const sql = `SELECT FROM ${READ_MODEL_SCHEMA}.appointment WHERE appointment_id = ANY ($1) AND status = 'confirmed'`;
      return (await pool.query(sql, [lastAppointmentIds])).rowCount === lastAppointmentIds.length;
    });
    const textsBefore = await readAllTexts();
    const options = {
      client,
      pool,
      dataKeys: createTestDataKeys(pool),
      models: readModels,
      logger,
      onProgress: () => undefined,
    };
    const differences: Difference[] = [];
    const { rows } = await verify({ ...options, onDifference: (difference) => differences.push(difference) }, signal);
    expect(differences).to.deep.equal([]);
    expect(rows).to.be.above(0);
    await rebuild(options, signal);
    expect(await readAllTexts()).to.deep.equal(textsBefore);
  });

  it("a portal user of a sandbox sees only that sandbox's data since the last reset", async () => {
    const [partner, otherPartner] = [await api.createPartner(), await api.createPartner()];
    const sandbox = await getSandbox(partner);
    const otherSandbox = await getSandbox(otherPartner);
    const userId = await grantOwnership(api.command.log, sandbox.clinicId);
    const Cookie = await createSessionCookie({ id: userId, email: "owner@example.test" }, PORTAL, Date.now());
    const requestPortal = (path: string) => sendRequest("GET", `${api.queryUrl}/api/v1${path}`, { Cookie });
    await eventually("the membership is known", async () => (await requestPortal("/clinic/context")).status === 200);

    const clinics = (await requestPortal("/clinics")).body.clinics;
    expect(clinics.map(({ id }: { id: string }) => id)).to.deep.equal([sandbox.clinicId]);
    const listAnimalIds = async () =>
      (await requestPortal("/customers")).body.customers.flatMap((customer: { animals: { id: string }[] }) =>
        customer.animals.map(({ id }) => id),
      ) as string[];
    expect((await listAnimalIds()).sort()).to.deep.equal(sandbox.animals.map(({ id }: { id: string }) => id).sort());
    const readAppointmentsText = async () => (await requestPortal("/appointments")).text;
    const ownAppointmentId = await createAppointment(partner, sandbox);
    const otherAppointmentId = await createAppointment(otherPartner, otherSandbox);
    await getSandbox(partner);
    expect(await readAppointmentsText())
      .to.include(ownAppointmentId)
      .and.not.to.include(otherAppointmentId);
    for (const path of ["/branches", "/services", "/staff", "/availability", "/queue"]) {
      const { status, text } = await requestPortal(path);
      expect(status, path).to.equal(200);
      expect(text).not.to.include(otherSandbox.clinicId);
    }
    expect((await partner.request("POST", "/sandbox/reset")).status).to.equal(200);
    await getSandbox(partner);
    expect(await readAppointmentsText()).not.to.include(ownAppointmentId);
    expect(await listAnimalIds()).to.have.length(sandbox.animals.length);
  });
});
