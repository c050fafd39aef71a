import { randomUUID } from "node:crypto";
import { changeSubscription } from "../../command/operations/clinic-operations.ts";
import { grantMembership } from "../../command/operations/people-operations.ts";
import { createSessionCookie } from "../../deploy/local/demo-data/credentials.ts";
import type { LocalStack } from "../../deploy/local/stack/stack.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { allPermissions } from "../support/clinics.ts";
import { connectToLog } from "../support/connections.ts";
import { createPartnerWorld, createTestOperatorContext } from "../support/partner.ts";
import { createPlainLog } from "../support/plain-log.ts";

export interface ApiResponse {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: the fields of a body depend on the request
  body: any;
}

/** A clinic with a portal user and a partner application on a running stack. */
export type World = Awaited<ReturnType<typeof createWorld>>;

/** Time limit of a request, so that a test fails instead of hanging. Milliseconds. */
const REQUEST_TIMEOUT_MS = 30_000;

/** Parts of a stack that `createWorld` uses. */
interface WorldStack {
  servers: Pick<LocalStack["servers"], "eventstoreUrl" | "root">;
  urls: Pick<LocalStack["urls"], "gateway">;
  env: Pick<LocalStack["env"], "queryApi">;
}

/** Creates a clinic with a portal user and an installed application. */
export async function createWorld(stack: WorldStack) {
  const log = createPlainLog(connectToLog(stack.servers.eventstoreUrl));
  const partner = await createPartnerWorld({ url: stack.urls.gateway, log }, "sandbox");
  const { clinicId, branchId, animalId, applicationId, headers } = partner;
  await changeSubscription(
    log,
    { clinicId, plan: "pro", status: "active", currentPeriodEnd: null },
    createTestOperatorContext(),
  );
  const userId = await grantOwnership(log, clinicId);

  let gatewayUrl = stack.urls.gateway;
  const portal = {
    jwtSecret: stack.servers.root.secrets.portalJwtSecret,
    jwtIssuer: stack.env.queryApi.PORTAL_JWT_ISSUER as string,
    cookieName: stack.env.queryApi.PORTAL_COOKIE_NAME as string,
  };
  const Cookie = await createSessionCookie({ id: userId, email: "owner@example.test" }, portal, Date.now());
  const scheduledAt = new Date(Date.now() + 3 * 86_400_000).toISOString();

  /** Calls the partner API with the application's token and the clinic header. */
  const requestPartner = (
    method: string,
    path: string,
    options: { body?: unknown; headers?: Record<string, string> } = {},
  ) =>
    sendRequest(method, `${gatewayUrl}/sandbox/v1${path}`, { ...options, headers: { ...headers, ...options.headers } });
  /** Sends a GET request to the portal API as the clinic's owner. */
  const requestPortal = (path: string) => sendRequest("GET", `${gatewayUrl}/api/v1${path}`, { headers: { Cookie } });
  return {
    clinicId,
    animalId,
    applicationId,
    requestPartner,
    requestPortal,
    /** Creates an appointment three days from now, by default for `animalId`. */
    createAppointment: (idempotencyKey: string, notes?: string, appointmentAnimalId: string = animalId) =>
      requestPartner("POST", "/appointments", {
        headers: { "Idempotency-Key": idempotencyKey },
        body: { branchId, animalId: appointmentAnimalId, scheduledAt, ...(notes === undefined ? {} : { notes }) },
      }),
    /** Returns the appointments in the portal, by id. */
    async listPortalAppointments(): Promise<Map<string, { notes: string | null }>> {
      const { status, body } = await requestPortal("/appointments?limit=250");
      if (status !== 200) throw new Error(`The portal request failed: ${status} ${JSON.stringify(body)}`);
      return new Map(body.appointments.map((row: { id: string; notes: string | null }) => [row.id, row]));
    },
    /** Sends further requests to another stack with the same log and secrets. */
    moveTo(otherStack: LocalStack) {
      gatewayUrl = otherStack.urls.gateway;
    },
  };
}

/** Makes a new portal user an owner of the clinic. @returns the user's id */
export async function grantOwnership(log: EventLog, clinicId: string): Promise<string> {
  const userId = randomUUID();
  const membership = { membershipId: randomUUID(), clinicId, userId, staffId: null };
  const rights = { role: "owner" as const, permissions: allPermissions, branchAccess: "all" as const, branchIds: [] };
  const acceptedAt = new Date().toISOString();
  await grantMembership(log, { ...membership, ...rights, acceptedAt }, createTestOperatorContext());
  return userId;
}

async function sendRequest(
  method: string,
  url: string,
  { body, headers = {} }: { body?: unknown; headers?: Record<string, string> },
): Promise<ApiResponse> {
  const response = await fetch(url, {
    method,
    headers: { ...headers, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) };
}
