import { createRetryingEventLog } from "../../../command/cli/retry.ts";
import { loadAggregate } from "../../../command/handling/handle.ts";
import { portalUserAggregate } from "../../../shared/domain/clinic/portal-user.ts";
import { scopes } from "../../../shared/domain/events/partner.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog, type EventLog } from "../../../shared/eventstore/log.ts";
import { createDataKeys } from "../../../shared/personal-data/create-data-keys.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import type { DemoAccess } from "../stack/stack-file.ts";
import {
  demoApplications,
  findExampleAnimalId,
  installApplication,
  sandboxClinic,
  setUpSandbox,
} from "./applications.ts";
import { addResources, offerServices, setUpClinic, suspendDemoClinic } from "./clinic-set-up.ts";
import { type DemoClinic, demoClinics } from "./clinics.ts";
import { createSessionCookie, DemoCredentials } from "./credentials.ts";
import {
  addOtherStaff,
  addPortalUser,
  createDemoUsers,
  type DemoUser,
  registerCustomers,
  selectUserClinic,
} from "./people.ts";
import { runSteps, type StepSequence } from "./steps.ts";
import { addHolds, addTicket, addWalkIns, createAppointment, createWeekAppointments } from "./week.ts";

interface DemoOptions {
  eventstoreUrl: string;
  databaseUrl: string;
  personalDataKeys: string;
  portalJwtSecret: string;
  portalJwtIssuer: string;
  portalCookieName: string;
  /** File with the applications' client secrets and the auditor's credential. The file is created if it is missing. */
  credentialsFile: string;
  /** Aborted to stop after the current step. The next call continues with the remaining steps. */
  signal?: AbortSignal;
  /** Time in the middle of the demo week, in milliseconds since 1970. By default, the current time. */
  now?: number;
}

/** Maximum time to wait for a server. It is long, because servers respond slowly on a busy machine. */
const SERVER_WAIT_S = 60;

const STATEMENT_TIMEOUT_MS = 10_000;

/**
 * Appends the demo data to the log, unless the log already contains it. Continues an interrupted run. Returns the
 * credentials for the demo data. Each call creates new sessions for the portal users.
 */
export async function seedDemoData(options: DemoOptions): Promise<DemoAccess> {
  const { credentialsFile, now = Date.now() } = options;
  const client = connectEventStore(options.eventstoreUrl, "demo-data");
  const keyConfig = readConfig(["PERSONAL_DATA_KEYS"], { PERSONAL_DATA_KEYS: options.personalDataKeys });
  const pool = createPool({
    url: options.databaseUrl,
    applicationName: "demo-data",
    size: 2,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    logger: createLogger("demo data", "silent"), // errors are thrown
  });
  try {
    const log = createRetryingEventLog(createEventLog(client, { dataKeys: createDataKeys(pool, keyConfig) }), {
      waitSeconds: SERVER_WAIT_S,
      signal: options.signal,
      writeNote: () => undefined,
    });
    if (!(await isSeeded(log))) await runSteps(log, buildPhases(now), options.signal);
    const credentials = new DemoCredentials(log, credentialsFile, now);
    const applications = [];
    for (const application of demoApplications) {
      const { id: clientId, name, environment, clinic } = application;
      const clientSecret = await credentials.ensureClientSecret(clientId);
      const branchId = clinic.branches[0]?.id ?? "";
      const ids = { clinicId: clinic.id, branchId, animalId: findExampleAnimalId(application) };
      applications.push({ name, environment, clientId, clientSecret, ...ids, scopes: [...scopes] });
    }
    const auditor = { credential: await credentials.ensureAuditor() };
    const operator = { credential: await credentials.ensureOperator() };
    const portalUsers = await describePortalUsers(options, now);
    return { portalUsers, applications, auditor, operator };
  } finally {
    await Promise.all([client.dispose(), pool.end()]);
  }
}

async function isSeeded(log: EventLog): Promise<boolean> {
  const lastUser = listPortalUsers().at(-1);
  return lastUser !== undefined && (await loadAggregate(log, portalUserAggregate, lastUser.id)).state !== undefined;
}

async function describePortalUsers(options: DemoOptions, now: number): Promise<DemoAccess["portalUsers"]> {
  const { portalJwtSecret: jwtSecret, portalJwtIssuer: jwtIssuer, portalCookieName: cookieName } = options;
  return Promise.all(
    listPortalUsers().map(async (user) => {
      const cookie = await createSessionCookie(user, { jwtSecret, jwtIssuer, cookieName }, now);
      const { id, name, role, email, clinic } = user;
      return { id, name, role, clinic: clinic.name, clinicId: clinic.id, email, cookie };
    }),
  );
}

/** Returns the portal users. The last step of the demo data selects a clinic for the last user in this list. */
function listPortalUsers(): DemoUser[] {
  return [...demoClinics.flatMap(createDemoUsers), ...createDemoUsers(sandboxClinic).slice(0, 1)];
}

/**
 * Returns all steps of the demo data. The phases run in order. The sequences within a phase are independent.
 *
 * @param now time in the middle of the demo week, in milliseconds since 1970
 */
export function buildPhases(now: number): StepSequence[][] {
  const flatMapClinics = (create: (clinic: DemoClinic) => StepSequence[]) => demoClinics.flatMap(create);
  return [
    [...demoClinics.map((clinic) => setUpClinic(clinic, now)), setUpSandbox(now)],
    [
      ...listPortalUsers().map((user) => addPortalUser(user, now)),
      ...flatMapClinics((clinic) => [
        ...addOtherStaff(clinic, now),
        ...offerServices(clinic, now),
        ...addResources(clinic, now),
        ...registerCustomers(clinic, now),
      ]),
    ],
    [
      ...flatMapClinics((clinic) =>
        createWeekAppointments(clinic, now).map((appointment) => [
          ...createAppointment(appointment, now),
          ...addTicket(appointment, now),
        ]),
      ),
      ...flatMapClinics((clinic) => [...addWalkIns(clinic, now), ...addHolds(clinic, now)]),
      ...demoApplications
        .filter(({ environment }) => environment === "production")
        .map((application) => installApplication(application, now)),
    ],
    demoClinics.map((clinic) => suspendDemoClinic(clinic, now)),
    // These steps are one sequence, so the last step runs after all others. `isSeeded` depends on this order.
    [listPortalUsers().flatMap((user) => selectUserClinic(user, now))],
  ];
}
