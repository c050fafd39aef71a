import { createCachingEventLog } from "../../../command/cli/import/caching-log.ts";
import { load } from "../../../command/handling/handle.ts";
import { portalUserAggregate } from "../../../shared/domain/clinic/portal-user.ts";
import { scopes } from "../../../shared/domain/events/partner.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog, type EventLog } from "../../../shared/eventstore/log.ts";
import { demoApplications, findExampleAnimal } from "./applications.ts";
import { ensureAuditorCredential, ensureClientSecrets } from "./credentials.ts";
import { buildPhases, listPortalUsers } from "./phases.ts";
import { createSessionCookie } from "./session.ts";
import { runSteps } from "./steps.ts";

export interface DemoOptions {
  eventstoreUrl: string;
  portalJwtSecret: string;
  portalJwtIssuer: string;
  portalCookieName: string;
  /** File for the client secrets of the applications. Created when secrets are issued. */
  credentialsFile: string;
  /** Receives progress lines. */
  log: (line: string) => void;
  /** Aborted to stop between two steps. The next start continues. */
  signal?: AbortSignal;
  /** Time in the middle of the demo week, in milliseconds since 1970. By default, now. */
  now?: number;
}

/** Credentials for the demo, written to stack.json. Contains secrets. */
export interface DemoAccess {
  portalUsers: {
    name: string;
    role: string;
    clinic: string;
    clinicId: string;
    email: string;
    cookie: string;
  }[];
  applications: {
    name: string;
    environment: string;
    clientId: string;
    clientSecret: string;
    clinicId: string;
    branchId: string;
    animalId: string;
    scopes: string[];
  }[];
  /** Has access to all recorded events. */
  auditor: { credential: string };
}

/**
 * Fills the log with demo data if it has none. A run that was interrupted is continued. Sessions of the portal users are
 * created on each call.
 */
export async function seedDemoData(options: DemoOptions): Promise<DemoAccess> {
  const now = options.now ?? Date.now();
  const client = connectEventStore(options.eventstoreUrl, "demo-data");
  try {
    const log = createEventLog(client);
    if (!(await isSeeded(log))) await seed(log, now, options);
    const ids = demoApplications.map(({ id }) => id);
    const secrets = await ensureClientSecrets(log, ids, options.credentialsFile, now);
    const auditor = { credential: await ensureAuditorCredential(log, options.credentialsFile, now) };
    return {
      portalUsers: await describePortalUsers(options, now),
      applications: describeApplications(secrets),
      auditor,
    };
  } finally {
    await client.dispose();
  }
}

async function isSeeded(log: EventLog): Promise<boolean> {
  const last = listPortalUsers().at(-1);
  return last !== undefined && (await load(log, portalUserAggregate, last.id)).state !== undefined;
}

async function seed(log: EventLog, now: number, options: DemoOptions): Promise<void> {
  let reported = 0;
  const report = (done: number, all: number) => {
    const quarter = Math.floor((4 * done) / all);
    if (quarter > reported) options.log(`demo data: ${done} of ${all} steps`);
    reported = Math.max(reported, quarter);
  };
  await runSteps(createCachingEventLog(log, "through"), buildPhases(now), report, options.signal);
}

async function describePortalUsers(options: DemoOptions, now: number): Promise<DemoAccess["portalUsers"]> {
  const { portalJwtSecret: jwtSecret, portalJwtIssuer: jwtIssuer, portalCookieName: cookieName } = options;
  return Promise.all(
    listPortalUsers().map(async (user) => {
      const cookie = await createSessionCookie(user, { jwtSecret, jwtIssuer, cookieName }, now);
      const { name, role, email, clinic } = user;
      return { name, role, clinic: clinic.name, clinicId: clinic.id, email, cookie };
    }),
  );
}

function describeApplications(secrets: Record<string, string>): DemoAccess["applications"] {
  return demoApplications.map((application) => {
    const { id, name, environment, clinic } = application;
    const branchId = clinic.branches[0]?.id ?? "";
    return {
      ...{ name, environment, clientId: id, clientSecret: secrets[id] ?? "", clinicId: clinic.id, branchId },
      ...{ animalId: findExampleAnimal(application), scopes: [...scopes] },
    };
  });
}
