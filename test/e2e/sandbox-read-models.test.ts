import { expect } from "chai";
import { confirmAppointment } from "../../command/operations/appointment-operations.ts";
import { createSessionCookie } from "../../deploy/local/demo-data/credentials.ts";
import { rebuild } from "../../projection/engine/rebuild.ts";
import { type Difference, verify } from "../../projection/engine/verify.ts";
import { readModels } from "../../projection/read-models/all.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { logger } from "../projection/engine-world.ts";
import { connectToLog, createTestPool } from "../support/connections.ts";
import { createTestDataKeys } from "../support/data-keys.ts";
import { eventually } from "../support/eventually.ts";
import { createTestOperatorContext, sendRequest } from "../support/partner.ts";
import { createSandboxAppointment, type Partner, startPartnerApi } from "../support/partner-api.ts";
import { queryEnvironment } from "../support/query-environment.ts";
import { useResource } from "../support/resources.ts";
import { grantOwnership } from "./world.ts";

const DAY_MS = 86_400_000;
const PORTAL = {
  cookieName: queryEnvironment.PORTAL_COOKIE_NAME,
  jwtIssuer: queryEnvironment.PORTAL_JWT_ISSUER,
  jwtSecret: queryEnvironment.PORTAL_JWT_SECRET,
};

describe("sandboxes in the read models", () => {
  const api = useResource(startPartnerApi);

  const getSandbox = async (partner: Partner) => (await partner.request("GET", "/sandbox")).body.sandbox;
  const reset = async (partner: Partner) =>
    expect((await partner.request("POST", "/sandbox/reset")).status).to.equal(200);
  const createAppointment = async (partner: Partner, sandbox: Awaited<ReturnType<typeof getSandbox>>) => {
    const { status, body, text } = await createSandboxAppointment(partner, sandbox);
    expect(status, text).to.equal(201);
    return body.appointment.id as string;
  };
  /** Returns the bodies of all responses in which a partner can read its sandbox. */
  const readTexts = async (partner: Partner) => {
    const headers = { "X-SERVICE-Clinic-ID": (await getSandbox(partner)).clinicId };
    const from = `${new Date(Date.now() - 5 * DAY_MS).toISOString().slice(0, 10)}T00:00:00Z`;
    const responses = await Promise.all(
      ["/sandbox", "/clinic/context", `/appointments?limit=250&from=${from}`].map((path) =>
        partner.request("GET", path, { headers }),
      ),
    );
    expect(responses.map(({ status }) => status)).to.deep.equal([200, 200, 200]);
    return responses.map(({ text }) => text);
  };

  it("the read models of a sandbox match the log after several resets and after a rebuild", async () => {
    const client = connectToLog(api.eventstoreUrl);
    const pool = createTestPool(api.database.urls.projection);
    const partners = [await api.createPartner(), await api.createPartner()];
    const lastAppointmentIds: string[] = [];
    for (const partner of partners)
      for (let round = 0; round < 3; round += 1) {
        const sandbox = await getSandbox(partner);
        const appointmentId = await createAppointment(partner, sandbox);
        const appointment = { clinicId: sandbox.clinicId, appointmentId };
        await confirmAppointment(api.command.log, appointment, createTestOperatorContext());
        if (round === 2) lastAppointmentIds.push(appointmentId);
        else await reset(partner);
      }
    await eventually("the last confirmations are read", async () => {
      const sql = `SELECT FROM ${READ_MODEL_SCHEMA}.appointment WHERE appointment_id = ANY ($1) AND status = 'confirmed'`;
      return (await pool.query(sql, [lastAppointmentIds])).rowCount === lastAppointmentIds.length;
    });
    const textsBefore = await Promise.all(partners.map(readTexts));
    const dataKeys = createTestDataKeys(pool);
    const options = { client, pool, dataKeys, models: readModels, logger, onProgress: () => undefined };
    const differences: Difference[] = [];
    const onDifference = (difference: Difference) => differences.push(difference);
    const { signal } = new AbortController();
    const { rows } = await verify({ ...options, onDifference }, signal);
    expect(differences).to.deep.equal([]);
    expect(rows).to.be.above(0);
    await rebuild(options, signal);
    expect(await Promise.all(partners.map(readTexts))).to.deep.equal(textsBefore);
  });

  it("a portal user of a sandbox sees only that sandbox's data since the last reset", async () => {
    const [partner, otherPartner] = [await api.createPartner(), await api.createPartner()];
    const [sandbox, otherSandbox] = [await getSandbox(partner), await getSandbox(otherPartner)];
    const userId = await grantOwnership(api.command.log, sandbox.clinicId);
    const Cookie = await createSessionCookie({ id: userId, email: "owner@example.test" }, PORTAL, Date.now());
    const requestPortal = (path: string) => sendRequest("GET", `${api.queryUrl}/api/v1${path}`, { Cookie });
    await eventually("the membership is known", async () => (await requestPortal("/clinic/context")).status === 200);

    const listIds = (records: { id: string }[]) => records.map(({ id }) => id).sort();
    expect(listIds((await requestPortal("/clinics")).body.clinics)).to.deep.equal([sandbox.clinicId]);
    const listAnimalIds = async () => {
      const { customers } = (await requestPortal("/customers")).body;
      return listIds(customers.flatMap(({ animals }: { animals: { id: string }[] }) => animals));
    };
    expect(await listAnimalIds()).to.deep.equal(listIds(sandbox.animals));
    const readAppointmentsText = async () => (await requestPortal("/appointments")).text;
    const ownAppointmentId = await createAppointment(partner, sandbox);
    const otherAppointmentId = await createAppointment(otherPartner, otherSandbox);
    // The read models reflect both appointments.
    for (const each of [partner, otherPartner]) await getSandbox(each);
    expect(await readAppointmentsText())
      .to.include(ownAppointmentId)
      .and.not.to.include(otherAppointmentId);
    for (const path of ["/branches", "/services", "/staff", "/availability", "/queue"]) {
      const { status, text } = await requestPortal(path);
      expect(status, path).to.equal(200);
      expect(text).not.to.include(otherSandbox.clinicId);
    }
    await reset(partner);
    await getSandbox(partner);
    expect(await readAppointmentsText()).not.to.include(ownAppointmentId);
    expect(await listAnimalIds()).to.have.length(sandbox.animals.length);
  });
});
