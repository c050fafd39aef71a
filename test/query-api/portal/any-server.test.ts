import { randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import { buildAuthorizedSql, requirements } from "../../../query-api/portal/authorization.ts";
import { createPortalOperations } from "../../../query-api/portal/operations.ts";
import {
  animalRegistered,
  appointmentRequested,
  branchOpened,
  type ClinicIds,
  customerRegistered,
  membershipGranted,
  openClinic,
  resourceAdded,
  serviceOffered,
  staffMemberHired,
} from "../../support/clinics.ts";
import { eventually } from "../../support/eventually.ts";
import { setUpQueryApi } from "../../support/query-api.ts";
import type { GivenEvent } from "../../support/read-models.ts";
import { getTestServers } from "../../support/stack.ts";

/** Names in natural alphabetical order. */
const NAMES = ["1st", "ada", "Ada", "Äpfel", "Émile", "Ole", "Øystein", "Özge", "Zoe", "Ωmega", "Яна", "李"];
const reverseNames = () => [...NAMES].reverse();

describe("portal responses with any server settings", () => {
  const api = setUpQueryApi();
  let clinic: ClinicIds;
  const originalTimeZone = process.env.TZ;

  before(async () => {
    clinic = await openClinic(api.given);
    const { clinicId, branchId, userId } = clinic;
    const ownerId = randomUUID();
    await api.given(
      ...reverseNames().flatMap((name): GivenEvent[] => {
        const id = randomUUID();
        return [
          customerRegistered(clinicId, id, { fullName: name }),
          animalRegistered(clinicId, ownerId, randomUUID(), { name, birthDate: "2020-02-29", weightKg: 4.35 }),
          serviceOffered({ serviceId: id, clinicId, name, price: 19.9 }),
          staffMemberHired({ staffId: id, clinicId, fullName: name }),
          branchOpened(clinicId, randomUUID(), { name, isMain: false }),
          resourceAdded(clinicId, branchId, randomUUID(), { name }),
        ];
      }),
      customerRegistered(clinicId, ownerId, { fullName: "Ω owner of them all" }),
      appointmentRequested(clinicId, branchId, "2026-03-10T22:30:00Z"),
    );
    for (const name of reverseNames()) {
      const otherClinic = await openClinic(api.given, { name });
      await api.given({ ...membershipGranted(otherClinic.clinicId, userId), at: "2026-03-02T08:00:00.000Z" });
    }
  });

  after(() => {
    if (originalTimeZone === undefined) delete process.env.TZ;
    else process.env.TZ = originalTimeZone;
  });

  const readBody = async (path: string) => (await api.get(`/api/v1/${path}`, clinic.userId)).body;
  const filterTestNames = (names: string[]) => names.filter((name) => NAMES.includes(name));

  for (const [recordKind, listNames] of Object.entries({
    customers: async () => (await readBody("customers")).customers.map((one: { fullName: string }) => one.fullName),
    animals: async () =>
      (await readBody("customers")).customers.flatMap((customer: { animals: { name: string }[] }) =>
        customer.animals.map(({ name }) => name),
      ),
    services: async () => (await readBody("services")).services.map((one: { name: string }) => one.name),
    staff: async () => (await readBody("staff")).staff.map((one: { fullName: string }) => one.fullName),
    branches: async () => (await readBody("branches")).branches.map((one: { name: string }) => one.name),
    clinics: async () => (await readBody("clinics")).clinics.map((one: { name: string }) => one.name),
    resources: async () => (await readBody("availability")).resources.map((one: { name: string }) => one.name),
  })) {
    it(`the portal sorts ${recordKind} alphabetically, regardless of the database's collation`, async () => {
      expect(filterTestNames(await listNames())).to.deep.equal(NAMES);
    });
  }

  for (const { operationId, sql } of createPortalOperations({ operatorName: "Test Operator" }))
    it(`the SQL of ${operationId} converts no time to a time zone, which the server may not know`, () => {
      const text = buildAuthorizedSql(requirements[operationId], sql);
      expect(text).to.not.match(/at time zone|timezone\(|date_trunc|date_part|extract|to_char|current_date|localtime/i);
    });

  it("the portal returns the same dates, times and numbers for every time zone of the process and of the database", async () => {
    const readAllOperations = async () => {
      const windowQuery = "from=2026-03-01T00:00:00Z&to=2026-03-31T00:00:00Z&limit=100";
      const bodies: unknown[] = [];
      for (const { path } of createPortalOperations({ operatorName: "Test Operator" })) {
        const { correlationId, generatedAt, ...body } = await readBody(
          `${path.slice("/api/v1/".length)}?${windowQuery}`,
        );
        expect(correlationId).to.be.a("string");
        bodies.push(body);
      }
      return bodies;
    };
    const bodiesBefore = await readAllOperations();
    expect(JSON.stringify(bodiesBefore)).to.contain('"birthDate":"2020-02-29","weightKg":4.35');
    expect(JSON.stringify(bodiesBefore)).to.contain('"price":19.9,');
    expect(JSON.stringify(bodiesBefore)).to.contain('"scheduledAt":"2026-03-10T22:30:00.000Z"');
    const { name } = api.database;
    const admin = new pg.Client({ connectionString: (await getTestServers()).adminDatabaseUrl });
    await admin.connect();
    for (const zone of ["Pacific/Kiritimati", "Pacific/Pago_Pago"]) {
      process.env.TZ = zone;
      expect(new Date(0).getTimezoneOffset()).to.not.equal(0);
      await admin.query(`ALTER DATABASE ${name} SET timezone TO '${zone}'`);
      // A connection keeps the time zone with which it was opened, so the test ends the connections.
      const terminationResult = await admin.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = '${name}' AND application_name = 'clinic-query-api'`,
      );
      expect(terminationResult.rowCount).to.be.greaterThan(0);
      const isResponding = async () => (await api.get("/api/v1/clinics", clinic.userId)).status === 200;
      await eventually("a response over a new connection", isResponding);
      expect(await readAllOperations()).to.deep.equal(bodiesBefore);
    }
    await admin.end();
  });
});
