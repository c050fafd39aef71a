import type { Scope } from "../domain/events/partner.ts";

/** Declaration of a partner API operation. The command service and the query-api service use the same declarations. */
export interface PartnerOperation {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: string;
  summary: string;
  /** Scope that token, application and installation must have; null if the operation requires no token. */
  scope: Scope | null;
  /** If true, the operation needs the clinic header and an installation at that clinic. */
  requiresClinic?: boolean;
  /** If true, the clinic header is optional. A request without it concerns the application at all its clinics. */
  acceptsClinic?: boolean;
  /** If true, the operation works on the application's own sandbox and needs no clinic header. */
  requiresSandbox?: boolean;
}

type Method = PartnerOperation["method"];

function defineAtClinic<const M extends Method, const P extends string>(
  method: M,
  path: P,
  scope: Scope,
  summary: string,
) {
  return { method, path, scope, summary, requiresClinic: true };
}

function defineAtSandbox<const M extends Method, const P extends string>(
  method: M,
  path: P,
  scope: Scope,
  summary: string,
) {
  return { method, path, scope, summary, requiresSandbox: true };
}

const linkPath = "/animal-links/:linkId";
const endpointPath = "/webhook-endpoints/:endpointId";
const deliveriesPath = `${endpointPath}/deliveries` as const;
const replaysPath = `${endpointPath}/replays` as const;
const deliveryPath = `${deliveriesPath}/:deliveryId` as const;

/** Operations on the webhook endpoints of an application at a clinic. */
const endpointOperations = {
  listWebhookEndpoints: defineAtClinic("GET", "/webhook-endpoints", "webhooks:read", "List webhook endpoints"),
  createWebhookEndpoint: defineAtClinic("POST", "/webhook-endpoints", "webhooks:write", "Create webhook endpoint"),
  getWebhookEndpoint: defineAtClinic("GET", endpointPath, "webhooks:read", "Get webhook endpoint"),
  updateWebhookEndpoint: defineAtClinic("PATCH", endpointPath, "webhooks:write", "Change webhook endpoint"),
  disableWebhookEndpoint: defineAtClinic(
    "POST",
    `${endpointPath}/disable`,
    "webhooks:write",
    "Disable webhook endpoint",
  ),
  enableWebhookEndpoint: defineAtClinic("POST", `${endpointPath}/enable`, "webhooks:write", "Enable webhook endpoint"),
  revokeWebhookEndpoint: defineAtClinic("DELETE", endpointPath, "webhooks:write", "Revoke webhook endpoint"),
  rotateWebhookSecret: defineAtClinic(
    "POST",
    `${endpointPath}/rotate-secret`,
    "webhooks:write",
    "Rotate webhook signing secret",
  ),
  testWebhookEndpoint: defineAtClinic("POST", `${endpointPath}/test`, "webhooks:write", "Send a test event"),
  listWebhookDeliveries: defineAtClinic("GET", deliveriesPath, "webhooks:read", "List recent deliveries"),
  getWebhookDelivery: defineAtClinic("GET", deliveryPath, "webhooks:read", "Get a delivery"),
  replayWebhookDelivery: defineAtClinic("POST", `${deliveryPath}/replay`, "webhooks:write", "Replay a failed delivery"),
  replayWebhookDeliveries: defineAtClinic("POST", replaysPath, "webhooks:write", "Replay several deliveries"),
  getWebhookReplay: defineAtClinic("GET", `${replaysPath}/:replayId`, "webhooks:read", "Get the progress of a replay"),
} as const satisfies Record<string, PartnerOperation>;

/** Id of an operation on webhook endpoints of a clinic. */
export type EndpointOperationId = keyof typeof endpointOperations;

/** Id of the same operation on webhook endpoints that belong to the application. */
export type ApplicationOperationId<Id extends EndpointOperationId = EndpointOperationId> =
  Id extends `${infer Verb}Webhook${infer Noun}` ? `${Verb}ApplicationWebhook${Noun}` : never;

export function toApplicationOperationId<Id extends EndpointOperationId>(id: Id): ApplicationOperationId<Id> {
  return id.replace("Webhook", "ApplicationWebhook") as ApplicationOperationId<Id>;
}

type ApplicationOperations = {
  [Id in EndpointOperationId as ApplicationOperationId<Id>]: Omit<
    (typeof endpointOperations)[Id],
    "path" | "requiresClinic"
  > & {
    path: `/application${(typeof endpointOperations)[Id]["path"]}`;
  };
};

/** Operations on the webhook endpoints of an application that belong to no clinic. They need no clinic header. */
const applicationOperations = Object.fromEntries(
  Object.entries(endpointOperations).map(([id, { requiresClinic: _, path, summary, ...operation }]) => [
    toApplicationOperationId(id as EndpointOperationId),
    { ...operation, path: `/application${path}`, summary: `${summary} (application)` },
  ]),
) as unknown as ApplicationOperations;

/**
 * All operations of the partner API. The query-api service serves GET operations, and the command service serves all
 * other operations.
 */
export const partnerOperations = {
  exchangeToken: { method: "POST", path: "/oauth/token", summary: "Exchange client credentials", scope: null },
  listInstallations: { method: "GET", path: "/installations", summary: "List installations", scope: "clinic:read" },
  getClinicContext: defineAtClinic("GET", "/clinic/context", "clinic:read", "Get authorized clinic context"),
  listPartnerAppointments: defineAtClinic("GET", "/appointments", "appointments:read", "List appointments"),
  createPartnerAppointment: defineAtClinic("POST", "/appointments", "appointments:write", "Create an appointment"),
  getPartnerAppointment: defineAtClinic(
    "GET",
    "/appointments/:appointmentId",
    "appointments:read",
    "Get an appointment",
  ),
  listEvents: {
    method: "GET",
    path: "/events",
    summary: "List events",
    scope: "appointments:read",
    acceptsClinic: true,
  },
  linkAnimal: defineAtClinic("POST", "/animal-links", "animals:link", "Link an animal"),
  listAnimalLinks: defineAtClinic("GET", "/animal-links", "animals:link", "List animal links"),
  getAnimalLink: defineAtClinic("GET", linkPath, "animals:link", "Get an animal link"),
  endAnimalLink: defineAtClinic("DELETE", linkPath, "animals:link", "End an animal link"),
  withdrawSandboxLink: defineAtSandbox(
    "POST",
    `${linkPath}/withdraw`,
    "animals:link",
    "Withdraw the consent to a link",
  ),
  getSandboxState: defineAtSandbox("GET", "/sandbox", "sandbox:read", "Get sandbox state"),
  resetSandbox: defineAtSandbox("POST", "/sandbox/reset", "sandbox:write", "Reset sandbox fixtures"),
  changeSandboxAccess: defineAtSandbox("POST", "/sandbox/access", "sandbox:write", "Change the access to the sandbox"),
  changeSandboxAppointmentStatus: defineAtSandbox(
    "POST",
    "/appointments/:appointmentId/transitions",
    "appointments:write",
    "Change the status of an appointment",
  ),
  rescheduleSandboxAppointment: defineAtSandbox(
    "POST",
    "/appointments/:appointmentId/reschedule",
    "appointments:write",
    "Move an appointment",
  ),
  ...endpointOperations,
  ...applicationOperations,
} as const satisfies Record<string, PartnerOperation>;

export type PartnerOperationId = keyof typeof partnerOperations;

/**
 * Returns the name of the log position header. Responses to writes contain this header. If a partner sends it with a
 * read, the response reflects the write, or the read fails with 503. The value is opaque to partners.
 */
export function getPositionHeader(brand: string): string {
  return `X-${brand}-Log-Position`;
}
