import { randomUUID } from "node:crypto";
import type { CommandContext } from "../../command/handling/handle.ts";
import { issueCredential, registerApplication } from "../../command/operations/application-operations.ts";
import { changeSubscription, openBranch, registerClinic } from "../../command/operations/clinic-operations.ts";
import { approveInstallation, requestInstallation } from "../../command/operations/installation-operations.ts";
import { grantMembership, registerAnimal, registerCustomer } from "../../command/operations/people-operations.ts";
import { createSessionCookie } from "../../deploy/local/demo-data/credentials.ts";
import type { Stack } from "../../deploy/local/stack/stack.ts";
import { type Scope, scopes } from "../../shared/domain/events/partner.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { createPlainLog } from "../support/plain-log.ts";

/** Status, headers and body of a response. */
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

/** Parts of a stack that a world needs. */
interface WorldStack {
  servers: Pick<Stack["servers"], "eventstoreUrl" | "root">;
  urls: Pick<Stack["urls"], "gateway">;
  env: Pick<Stack["env"], "queryApi">;
}

/** Creates a clinic with a portal user and an installed application. */
export async function createWorld(stack: WorldStack) {
  const client = connectEventStore(stack.servers.eventstoreUrl, "test");
  const log = createPlainLog(client);
  const [clinicId, branchId, customerId, animalId, userId, membershipId] = Array.from({ length: 6 }, () =>
    randomUUID(),
  ) as [string, string, string, string, string, string];
  const environment = "sandbox" as const;
  const context: CommandContext = {
    actor: { type: "operator", id: "test" },
    clinicId,
    environment,
    correlationId: randomUUID(),
    causationId: randomUUID(),
    now: Date.now(),
  };
  const slug = `clinic-${clinicId.slice(0, 8)}`;
  const location = { timezone: "Europe/Ljubljana", currency: "EUR", locale: "sl-SI", city: "Ljubljana" };
  const demoFields = { isDemo: false, demoExpiresAt: null };
  await registerClinic(log, { clinicId, environment, slug, name: "Happy Paws", ...location, ...demoFields }, context);
  await openBranch(log, { clinicId, branchId, name: "Main", city: null }, context);
  await changeSubscription(log, { clinicId, plan: "pro", status: "active", currentPeriodEnd: null }, context);
  const customer = { fullName: "Ana Kos", phone: null, email: null, city: null };
  await registerCustomer(log, { customerId, clinicId, ...customer }, context);
  const animal = { name: "Rex", species: "dog", breed: null, sex: null, birthDate: null, weightKg: null };
  await registerAnimal(log, { animalId, clinicId, customerId, ...animal, microchip: null }, context);
  const rights = {
    role: "owner" as const,
    permissions: ["manage_staff", "view_clinical", "manage_schedule", "manage_tenant"] as const,
    branchAccess: "all" as const,
    branchIds: [],
  };
  const acceptedAt = new Date().toISOString();
  const membership = { membershipId, clinicId, userId, staffId: null, acceptedAt };
  await grantMembership(log, { ...membership, ...rights, permissions: [...rights.permissions] }, context);

  const application = { environment, name: "Partner", scopes: [...scopes] as Scope[] };
  const { applicationId } = await registerApplication(log, application, context);
  const { clientSecret } = await issueCredential(log, { applicationId }, context);
  await requestInstallation(log, { applicationId, clinicId, scopes: application.scopes }, context);
  const approval = { applicationId, clinicId, membershipId, rateLimitPerMinute: 100_000 };
  await approveInstallation(log, approval, context);
  await client.dispose();

  let gatewayUrl = stack.urls.gateway;
  const portal = {
    jwtSecret: stack.servers.root.secrets.portalJwtSecret,
    jwtIssuer: stack.env.queryApi.PORTAL_JWT_ISSUER as string,
    cookieName: stack.env.queryApi.PORTAL_COOKIE_NAME as string,
  };
  const Cookie = await createSessionCookie({ id: userId, email: "owner@example.test" }, portal, Date.now());
  const credentials = { client_id: applicationId, client_secret: clientSecret, environment };
  const tokenResponse = await sendRequest("POST", `${gatewayUrl}/sandbox/v1/oauth/token`, {
    body: { ...credentials, grant_type: "client_credentials" },
  });
  if (tokenResponse.status !== 200)
    throw new Error(`The token exchange failed: ${tokenResponse.status} ${JSON.stringify(tokenResponse.body)}`);
  const headers = { Authorization: `Bearer ${tokenResponse.body.access_token}`, "X-SERVICE-Clinic-ID": clinicId };
  const scheduledAt = new Date(Date.now() + 3 * 86_400_000).toISOString();

  /** Calls the partner API with the application's token and the clinic header. */
  const requestPartner = (
    method: string,
    path: string,
    options: { body?: unknown; headers?: Record<string, string> } = {},
  ) =>
    sendRequest(method, `${gatewayUrl}/sandbox/v1${path}`, { ...options, headers: { ...headers, ...options.headers } });
  /** Calls the portal API as the clinic's owner. */
  const requestPortal = (path: string) => sendRequest("GET", `${gatewayUrl}/api/v1${path}`, { headers: { Cookie } });
  return {
    clinicId,
    animalId,
    applicationId,
    requestPartner,
    requestPortal,
    /** Creates an appointment three days from now, by default for the animal of the world. */
    createAppointment: (idempotencyKey: string, notes?: string, appointmentAnimalId: string = animalId) =>
      requestPartner("POST", "/appointments", {
        headers: { "Idempotency-Key": idempotencyKey },
        body: { branchId, animalId: appointmentAnimalId, scheduledAt, ...(notes === undefined ? {} : { notes }) },
      }),
    /** Returns the appointments that the portal lists, by id. */
    async listPortalAppointments(): Promise<Map<string, { notes: string | null }>> {
      const { status, body } = await requestPortal("/appointments?limit=250");
      if (status !== 200) throw new Error(`The portal request failed: ${status} ${JSON.stringify(body)}`);
      return new Map(body.appointments.map((row: { id: string; notes: string | null }) => [row.id, row]));
    },
    /** Sends all further requests to another stack that has the same log and the same secrets. */
    moveTo(otherStack: Stack) {
      gatewayUrl = otherStack.urls.gateway;
    },
  };
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
  return {
    status: response.status,
    headers: response.headers,
    body: text === "" ? undefined : JSON.parse(text),
  };
}
