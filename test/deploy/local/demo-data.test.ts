import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { jwtVerify } from "jose";
import { createDryRunLog } from "../../../command/cli/import/line-log.ts";
import { hashSecret } from "../../../command/operations/credentials.ts";
import { demoClinics } from "../../../deploy/local/demo-data/clinics.ts";
import { buildPhases, seedDemoData } from "../../../deploy/local/demo-data/demo-data.ts";
import { runSteps, type Step } from "../../../deploy/local/demo-data/steps.ts";
import { createWeekAppointments } from "../../../deploy/local/demo-data/week.ts";
import type { DemoAccess } from "../../../deploy/local/stack/stack-file.ts";
import { compareTables, type Difference } from "../../../projection/engine/verify.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { appointmentStatuses } from "../../../shared/domain/appointment/appointment.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { parseStoredEvent } from "../../../shared/domain/events/stored-event.ts";
import { addDays, fromLocalTime, toLocalDate } from "../../../shared/domain/time/local-time.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { runCopy, startTestLog, type TestLog } from "../../command/cli/log-copy/copied-logs.ts";
import { runProjectionCommand } from "../../projection/engine-world.ts";
import { createTestPool } from "../../support/connections.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import { eventually } from "../../support/eventually.ts";
import { createDatabaseWithReadModels } from "../../support/migrated-database.ts";
import { getRejection } from "../../support/rejection.ts";
import { getTestServers, makeTestRoot, type TestDatabase } from "../../support/stack.ts";

const portalOptions = {
  portalJwtSecret: "a secret of the portal that is long enough",
  portalJwtIssuer: "http://127.0.0.1:8080/auth/v1",
  portalCookieName: "sb-local-auth-token",
};
const now = Date.parse("2026-05-05T09:10:00Z");
const HOUR_MS = 3_600_000;

describe("demo data", function () {
  this.timeout(300_000);
  let root: string;
  let source: TestLog;
  let interruption: { message: string; eventCount: number };
  let firstAccess: DemoAccess;
  let database: TestDatabase;

  // The tests share one log, because a run takes seconds. Each test sees the events of all earlier tests.
  before(async () => {
    root = makeTestRoot();
    database = await createDatabaseWithReadModels();
    source = await startTestLog();
    const controller = new AbortController();
    const seedPromise = seed(now, controller.signal);
    await eventually("the first events", async () => (await readEvents()).length > 0);
    controller.abort(new Error("interrupted"));
    const { message } = await getRejection(seedPromise);
    interruption = { message, eventCount: (await readEvents()).length };
    firstAccess = await seed(now + 5 * HOUR_MS);
  });

  const getCredentialsPath = () => path.join(root, "demo-credentials.json");
  const seed = (seedTime = now, signal?: AbortSignal): Promise<DemoAccess> =>
    seedDemoData({
      ...portalOptions,
      databaseUrl: database.urls.command,
      personalDataKeys: PERSONAL_DATA_KEYS,
      eventstoreUrl: source.url,
      credentialsFile: getCredentialsPath(),
      now: seedTime,
      ...(signal && { signal }),
    });

  /** Returns all events of the log, parsed by the event catalog. */
  async function readEvents(): Promise<CatalogEvent[]> {
    const events: CatalogEvent[] = [];
    for await (const { event } of source.client.readAll()) {
      const catalogEvent = event && !event.type.startsWith("$") ? parseStoredEvent(event as never) : undefined;
      if (catalogEvent) events.push(catalogEvent);
    }
    return events;
  }
  const filterByType = <Type extends CatalogEvent["type"]>(events: CatalogEvent[], type: Type) =>
    events.filter((event): event is Extract<CatalogEvent, { type: Type }> => event.type === type);

  it("seedDemoData completes an interrupted run without duplicates, even hours later", async () => {
    expect(interruption.message).to.contain("interrupted");
    const events = await readEvents();
    expect(interruption.eventCount).to.be.within(1, events.length - 1);
    const animalIds = filterByType(events, "AnimalRegistered").map(({ data }) => data.animalId);
    expect(new Set(animalIds).size).to.equal(animalIds.length);
    const distinctEvents = new Set(events.map((event) => JSON.stringify(event.data) + event.type));
    expect(distinctEvents.size).to.equal(events.length);
  });

  it("seedDemoData creates all demo data, and a second call appends nothing", async () => {
    const events = await readEvents();
    expect(filterByType(events, "ClinicRegistered").map(({ data }) => data.environment)).to.have.members([
      "production",
      "production",
      "production",
      "sandbox",
    ]);
    expect(filterByType(events, "ClinicSuspended")).to.have.length(1);
    expect(filterByType(events, "ClinicRegistered").filter(({ data }) => data.demoExpiresAt !== null)).to.have.length(
      1,
    );
    expect(filterByType(events, "CustomerRegistered").length).to.be.within(290, 320);
    expect(filterByType(events, "AnimalRegistered").length).to.be.within(440, 470);
    expect(new Set(filterByType(events, "StaffMemberHired").map(({ data }) => data.role)).size).to.equal(5);
    expect(filterByType(events, "InstallationApproved")).to.have.length(2);
    expect(filterByType(events, "AppointmentRescheduled"), "one for each branch").to.have.length(7);

    const secondAccess = await seed(now + 6 * HOUR_MS);
    expect(await readEvents()).to.have.length(events.length);
    expect(secondAccess.applications).to.deep.equal(firstAccess.applications);
    expect(secondAccess.portalUsers[0]?.cookie).not.to.equal(firstAccess.portalUsers[0]?.cookie);
  });

  it("seedDemoData returns valid client secrets and portal sessions", async () => {
    const { applications, portalUsers } = firstAccess;
    const events = await readEvents();
    expect(fs.statSync(getCredentialsPath()).mode & 0o777).to.equal(0o600);
    expect(applications.map(({ environment }) => environment)).to.deep.equal(["production", "sandbox"]);
    for (const { clientId, clientSecret, clinicId, branchId, animalId } of applications) {
      const issuedEvent = filterByType(events, "CredentialIssued").find(({ data }) => data.applicationId === clientId);
      expect(issuedEvent?.data.secretHash).to.equal(hashSecret(clientSecret));
      const approvedEvent = filterByType(events, "InstallationApproved").find(
        ({ data }) => data.applicationId === clientId,
      );
      expect(approvedEvent?.data.clinicId).to.equal(clinicId);
      const fixtureEvents = filterByType(events, "SandboxReset").flatMap(({ data }) => data.events) as CatalogEvent[];
      const registeredEvent = filterByType([...events, ...fixtureEvents], "AnimalRegistered").find(
        ({ data }) => data.animalId === animalId,
      );
      expect(registeredEvent?.data.clinicId).to.equal(clinicId);
      const openedEvent = filterByType(events, "BranchOpened").find(({ data }) => data.branchId === branchId);
      expect(openedEvent?.data.clinicId).to.equal(clinicId);
    }
    const userIds = filterByType(events, "MembershipGranted").map(({ data }) => data.userId);
    expect(portalUsers).to.have.length(16);
    for (const { cookie } of portalUsers) {
      const encodedSession = /^sb-local-auth-token=base64-([\w-]+)$/.exec(cookie)?.[1] ?? "";
      const session = JSON.parse(Buffer.from(encodedSession, "base64url").toString());
      const key = new TextEncoder().encode(portalOptions.portalJwtSecret);
      const { payload } = await jwtVerify(session.access_token, key, {
        issuer: portalOptions.portalJwtIssuer,
        audience: "authenticated",
        currentDate: new Date(now + 6 * 86_400_000),
      });
      expect(userIds).to.include(payload.sub);
    }
  });

  it("seedDemoData replaces and revokes client secrets if the file with the secrets is lost", async () => {
    fs.rmSync(getCredentialsPath());
    const secondAccess = await seed();
    const events = await readEvents();
    expect(filterByType(events, "CredentialRevoked")).to.have.length(2);
    expect(filterByType(events, "CredentialIssued")).to.have.length(4);
    for (const [index, { clientSecret }] of secondAccess.applications.entries())
      expect(clientSecret).not.to.equal(firstAccess.applications[index]?.clientSecret);
  });

  it("a database that adopts a copy of the demo data has the same rows as before, except for log positions", async () => {
    const { natsUrl } = await getTestServers();
    const target = await startTestLog();
    const databaseUrl = database.urls.projection;
    const pool = createTestPool(databaseUrl);
    const run = ({ url: eventstoreUrl }: TestLog, ...args: string[]) =>
      runProjectionCommand({ eventstoreUrl, databaseUrl, natsUrl }, "rebuild", ...args);
    expect((await run(source)).code).to.equal(0);
    await pool.query("CREATE SCHEMA source");
    for (const { table } of readModels)
      await pool.query(`CREATE TABLE source.${table} AS TABLE ${READ_MODEL_SCHEMA}.${table}`);
    // A real server writes system events of its own, so the positions of the copied events differ.
    await target.client.setStreamMetadata("$server", { anything: 1 });
    const copyResult = await runCopy(source, target);
    expect(copyResult.code, copyResult.errorLines.join("\n")).to.equal(0);
    const { code, stderr } = await run(target, "--adopt-log");
    expect(code, stderr).to.equal(0);

    const differences: Difference[] = [];
    let rowCount = 0;
    const connection = await pool.connect();
    await connection.query("BEGIN READ ONLY");
    for (const model of readModels)
      rowCount += await compareTables(connection, model, [READ_MODEL_SCHEMA, "source"], (difference) =>
        differences.push(difference),
      );
    connection.release(true);
    expect(rowCount).to.be.greaterThan(500);
    const unexpectedDifferences = differences.filter(
      ({ columns }) => columns.length === 0 || columns.some((column) => !/(^|_)position$/.test(column)),
    );
    expect(unexpectedDifferences).to.deep.equal([]);
  });
});

describe("steps of the demo data", () => {
  it("if the signal is aborted, runSteps stops after the current step and fails with the signal's reason", async () => {
    const controller = new AbortController();
    const startedStepNames: string[] = [];
    const createStep = (name: string, run: () => void = () => undefined): Step => ({
      name,
      timeMs: 0,
      run: async () => {
        startedStepNames.push(name);
        run();
      },
    });
    const stopError = new Error("stopped");
    const sequence = [
      createStep("first"),
      createStep("second", () => controller.abort(stopError)),
      createStep("third"),
    ];
    const runPromise = runSteps({} as EventLog, [[sequence]], controller.signal);
    expect(await runPromise.catch((error: Error) => error)).to.equal(stopError);
    expect(startedStepNames).to.deep.equal(["first", "second"]);
  });
});

describe("the demo week", () => {
  const hourTimes = Array.from({ length: 24 }, (_, hour) => Date.parse("2026-10-25T00:07:00Z") + hour * 3_600_000);

  it("at any hour, the demo week contains every appointment status and a queue for today", () => {
    for (const now of hourTimes) {
      for (const clinic of demoClinics) {
        const weekAppointments = createWeekAppointments(clinic, now);
        expect(new Set(weekAppointments.map(({ status }) => status))).to.deep.equal(new Set(appointmentStatuses));
        const todayAppointments = weekAppointments.filter(({ date }) => date === toLocalDate(clinic.timezone, now));
        for (const { id } of clinic.branches) {
          const statuses = todayAppointments.filter(({ branchId }) => branchId === id).map(({ status }) => status);
          expect(statuses).to.include.members(["in_consultation", "waiting", "checked_in"]);
        }
      }
    }
  });

  it("the domain accepts all steps of the demo data at any hour, and the demo week is deterministic", async () => {
    const emptyLog = {
      read: async () => [],
      readLast: async () => undefined,
      append: () => Promise.reject(new Error("must not be written")),
    };
    for (const now of [0, 9, 17].map((hour) => hourTimes[hour] as number)) {
      await runSteps(createDryRunLog(emptyLog), buildPhases(now));
      const names = buildPhases(now)
        .flat(2)
        .map(({ name }) => name);
      expect(new Set(names).size, "number of distinct step names").to.equal(names.length);
    }
    const createWeeks = () => demoClinics.flatMap((clinic) => createWeekAppointments(clinic, hourTimes[3] as number));
    expect(createWeeks()).to.deep.equal(createWeeks());
  });
});

describe("times of the demo data", () => {
  const cases = [
    ["Europe/Berlin", "2026-10-25", "08:30", "2026-10-25T07:30:00.000Z"],
    ["Europe/Berlin", "2026-10-24", "08:30", "2026-10-24T06:30:00.000Z"],
    ["Australia/Sydney", "2026-10-04", "08:30", "2026-10-03T21:30:00.000Z"],
    ["America/Mexico_City", "2026-07-01", "16:30", "2026-07-01T22:30:00.000Z"],
  ] as const;
  for (const [zone, date, time, instant] of cases)
    it(`the local time ${time} on ${date} in ${zone} is converted to ${instant} and back`, () => {
      expect(new Date(fromLocalTime(zone, date, time)).toISOString()).to.equal(instant);
      expect(toLocalDate(zone, Date.parse(instant))).to.equal(date);
    });
  it("addDays handles the ends of months and years", () => {
    expect(addDays("2028-02-28", 2)).to.equal("2028-03-01");
    expect(addDays("2026-01-01", -1)).to.equal("2025-12-31");
  });
});
