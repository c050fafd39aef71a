import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type pg from "pg";
import { readModels } from "../../projection/read-models/all.ts";
import { createPortalOperations } from "../../query-api/portal/operations.ts";
import type { PartnerReadId } from "../../shared/partner-api/writes.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import {
  animalRegistered,
  appointmentRequested,
  availabilityRuleSet,
  customerRegistered,
  holdPlaced,
  membershipGranted,
  openClinic,
  queueTicketIssued,
  resourceAdded,
  resourceAllocated,
  serviceOffered,
  staffMemberHired,
} from "../support/clinics.ts";
import { openDatabase } from "../support/connections.ts";
import { insertAttempts, insertDelivery } from "../support/deliveries.ts";
import {
  endpointRegistered,
  installationApproved,
  registerApplication,
  replayRequested,
} from "../support/partner-events.ts";
import { type PortalResponse, request, setUpQueryApi } from "../support/query-api.ts";

const windowQuery = "from=2026-03-01T00:00:00Z&to=2026-04-01T00:00:00Z&limit=100&includeInactive=true";

/** Reads without a clinic header, and the event feed, which is tested elsewhere because it needs an event log. */
type OtherRead = "getSandboxState" | "listInstallations" | "listEvents";

const RECORDS = [
  ...(["staff", "colleague", "customer", "animal", "service", "resource", "rule", "hold", "ticket"] as const),
  ...(["appointment", "assignment", "walkIn", "visit", "endpoint", "delivery", "replay", "link"] as const),
];
type ClinicRecords = Record<(typeof RECORDS)[number], string>;

describe("tenant isolation", () => {
  const api = setUpQueryApi();
  let ownClinic: Awaited<ReturnType<typeof createFullClinic>>;
  let otherClinic: Awaited<ReturnType<typeof createFullClinic>>;

  before(async () => {
    ownClinic = await createFullClinic();
    otherClinic = await createFullClinic();
  });

  /**
   * Creates a clinic with one record of each kind. All texts except names contain a mark that is unique to the clinic.
   */
  async function createFullClinic() {
    const ids = await openClinic(api.given);
    const marker = randomUUID().replaceAll("-", "");
    const { clinicId, branchId, userId } = ids;
    const records = Object.fromEntries(RECORDS.map((name) => [name, randomUUID()])) as ClinicRecords;
    const { staff: staffId, customer: customerId, animal: animalId, resource: resourceId } = records;
    const { appointment: appointmentId, walkIn: walkInId, endpoint: endpointId } = records;
    const application = await registerApplication(api.given);
    const { applicationId } = application;
    const email = `${marker}@example.com`;
    const consent = { customerId, linkId: records.link, covers: "appointments_read" as const, sandboxGeneration: 0 };
    await api.given(
      staffMemberHired({ staffId, clinicId, userId, fullName: "Deniz", email }),
      membershipGranted(clinicId, records.colleague, { staffId, branchIds: [branchId] }),
      customerRegistered(clinicId, customerId, { phone: marker, email, city: marker }),
      animalRegistered(clinicId, customerId, animalId, { microchip: marker, breed: marker }),
      serviceOffered({ serviceId: records.service, clinicId, name: "Check-up", category: marker }),
      resourceAdded(clinicId, branchId, resourceId, { metadata: { mark: marker } }),
      availabilityRuleSet({ resourceId, ruleId: records.rule }),
      holdPlaced({ holdId: records.hold, clinicId, branchId, resourceId }),
      appointmentRequested(clinicId, branchId, "2026-03-10T09:00:00Z", {
        ...{ appointmentId, animalId, customerId, reason: marker, notes: marker },
      }),
      resourceAllocated({ appointmentId, assignmentId: records.assignment, resourceId }),
      appointmentRequested(clinicId, branchId, new Date().toISOString(), { appointmentId: walkInId, animalId }),
      { type: "AppointmentCheckedIn", data: { appointmentId: walkInId } },
      queueTicketIssued({
        ...{ ticketId: records.ticket, clinicId, branchId, appointmentId, visitId: records.visit, animalId },
        notes: marker,
      }),
      installationApproved(application, clinicId),
      { type: "AnimalLinked", data: { animalId, clinicId, applicationId, ...consent } },
      endpointRegistered(application, clinicId, endpointId),
      replayRequested(application, clinicId, endpointId, records.replay),
    );
    const delivery = { deliveryId: records.delivery, endpointId, clinicId, branchId, applicationId };
    await insertDelivery(api.database.admin, delivery);
    await insertAttempts(api.database.admin, records.delivery, 1, marker);
    return { ...ids, ...records, mark: marker, application };
  }

  /** Lists the ids of a clinic's records, and its mark. */
  const listIds = ({ application, ...ids }: typeof ownClinic) => [
    ...Object.values<string>(ids),
    application.applicationId,
    application.credentialId,
  ];

  /** Checks that a body contains data of `ownClinic`, and neither ids nor the mark of `otherClinic`. */
  function expectOnlyOwnData({ status, body }: PortalResponse) {
    const text = JSON.stringify(body).toLowerCase();
    expect(status, text).to.equal(200);
    expect(
      listIds(ownClinic).some((id) => text.includes(id)),
      text,
    ).to.equal(true);
    expect(listIds(otherClinic).filter((id) => text.includes(id))).to.deep.equal([]);
  }

  for (const { operationId, path, response } of createPortalOperations({ operatorName: "Test Operator" }))
    it(`the portal operation ${operationId} returns no data of another clinic`, async () => {
      const idQuery = `clinicId=${otherClinic.clinicId}&branchId=${otherClinic.branchId}`;
      const portalResponse = await api.get(`${path}?${windowQuery}&${idQuery}`, ownClinic.userId);
      expectOnlyOwnData(portalResponse);
      response.parse(portalResponse.body);
    });

  describe("partner reads", () => {
    async function readAsPartner(path: string, clinicId: string) {
      const token = await api.createPartnerToken(ownClinic.application);
      const headers = { Authorization: `Bearer ${token}`, "X-SERVICE-Clinic-ID": clinicId };
      return request(`${api.url}/production/v1${path}`, headers);
    }

    /** Builds a path for each partner read with a clinic header. */
    const pathBuilders: Record<Exclude<PartnerReadId, OtherRead>, (clinic: typeof ownClinic) => string> = {
      getClinicContext: () => "/clinic/context",
      listPartnerAppointments: () => `/appointments?${windowQuery}`,
      getPartnerAppointment: ({ appointment }) => `/appointments/${appointment}`,
      listSlots: () => `/slots?${windowQuery}`,
      listAnimalLinks: () => "/animal-links",
      getAnimalLink: ({ link }) => `/animal-links/${link}`,
      listWebhookEndpoints: () => "/webhook-endpoints",
      getWebhookEndpoint: ({ endpoint }) => `/webhook-endpoints/${endpoint}`,
      listWebhookDeliveries: ({ endpoint }) => `/webhook-endpoints/${endpoint}/deliveries`,
      getWebhookDelivery: ({ endpoint, delivery }) => `/webhook-endpoints/${endpoint}/deliveries/${delivery}`,
      getWebhookReplay: ({ endpoint, replay }) => `/webhook-endpoints/${endpoint}/replays/${replay}`,
    };

    for (const [operationId, buildPath] of Object.entries(pathBuilders))
      it(`the partner operation ${operationId} returns no data of another clinic`, async () => {
        expectOnlyOwnData(await readAsPartner(buildPath(ownClinic), ownClinic.clinicId));
      });

    it("the partner operation listInstallations returns no data of another clinic", async () => {
      expectOnlyOwnData(await readAsPartner("/installations", otherClinic.clinicId));
    });
  });

  describe("the database role of query-api", () => {
    let client: pg.Pool;

    before(() => {
      client = openDatabase(api.database.urls.query);
    });

    it("query-api's database role can write only rate limits, and can read only rate limits, read models and deliveries", async () => {
      const { rows } = await client.query<{ name: string; reads: boolean; writes: boolean }>(`
        SELECT c.oid::regclass::text AS name,
          has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT') AS reads,
          has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
            OR has_any_column_privilege(c.oid, 'INSERT, UPDATE, REFERENCES') AS writes
        FROM pg_class c
        WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
          AND c.relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema', 'pg_toast')`);
      expect(rows.filter(({ writes }) => writes).map(({ name }) => name)).to.deep.equal([
        "rate_limit.counter",
        "rate_limit.process",
      ]);
      const readableNames = rows.filter(({ reads }) => reads).map(({ name }) => name);
      const otherTables = readableNames.filter((name) => !name.startsWith(`${READ_MODEL_SCHEMA}.`));
      expect(otherTables).to.have.members([
        "rate_limit.counter",
        "rate_limit.process",
        "webhooks.delivery",
        "webhooks.attempt",
        "webhooks.failing_endpoint",
        "webhooks.pending_delivery",
        "webhooks.replay",
      ]);
      const hiddenNames = readModels
        .filter((model) => model.isHidden)
        .map((model) => `${READ_MODEL_SCHEMA}.${model.table}`);
      expect(hiddenNames).to.include(`${READ_MODEL_SCHEMA}.webhook_secret`);
      expect(readableNames.filter((name) => hiddenNames.includes(name))).to.deep.equal([]);
    });

    for (const statement of [
      `INSERT INTO ${READ_MODEL_SCHEMA}.clinic_selection VALUES (gen_random_uuid(), gen_random_uuid(), NULL, now())`,
      `UPDATE ${READ_MODEL_SCHEMA}.clinic SET name = 'x'`,
      `DELETE FROM ${READ_MODEL_SCHEMA}.appointment`,
      `TRUNCATE ${READ_MODEL_SCHEMA}.appointment`,
      `DROP TABLE ${READ_MODEL_SCHEMA}.appointment`,
      `CREATE TABLE ${READ_MODEL_SCHEMA}.mine (id integer)`,
      "CREATE TABLE public.mine (id integer)",
      `SELECT * FROM ${READ_MODEL_SCHEMA}.webhook_secret`,
      "SELECT event_id FROM webhooks.pending_delivery",
      "SELECT cause_id FROM webhooks.failing_endpoint",
      "UPDATE webhooks.delivery SET status = 'pending'",
    ])
      it(`query-api's database role is not permitted to run: ${statement}`, async () => {
        const errorCode = await client.query(statement).then(
          () => undefined,
          (reason: pg.DatabaseError) => reason.code,
        );
        // 42501: insufficient_privilege
        expect(errorCode).to.equal("42501");
      });
  });
});
