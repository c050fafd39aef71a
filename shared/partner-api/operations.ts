import type { Scope } from "../domain/events/partner.ts";

/** Declaration of a partner API operation. The command service and the query-api service use the same declarations. */
export interface PartnerOperation {
  method: "GET" | "POST" | "DELETE";
  /** Path below the base `/{sandbox|production}/v1`, with parameters as in @koa/router. */
  path: string;
  summary: string;
  /** Scope that token, application and installation must have; null if the operation requires no token. */
  scope: Scope | null;
  /** If true, the operation needs the clinic header and an installation at that clinic. */
  requiresClinic?: boolean;
  /** If true, the operation works on the application's own sandbox and needs no clinic header. */
  requiresSandbox?: boolean;
}

/**
 * All operations of the partner API. The query-api service serves GET operations, and the command service serves all
 * other operations.
 */
export const partnerOperations = {
  exchangeToken: {
    method: "POST",
    path: "/oauth/token",
    summary: "Exchange client credentials",
    scope: null,
  },
  getClinicContext: {
    method: "GET",
    path: "/clinic/context",
    summary: "Get authorized clinic context",
    scope: "clinic:read",
    requiresClinic: true,
  },
  listPartnerAppointments: {
    method: "GET",
    path: "/appointments",
    summary: "List appointments",
    scope: "appointments:read",
    requiresClinic: true,
  },
  createPartnerAppointment: {
    method: "POST",
    path: "/appointments",
    summary: "Create an appointment",
    scope: "appointments:write",
    requiresClinic: true,
  },
  getSandboxState: {
    method: "GET",
    path: "/sandbox",
    summary: "Get sandbox state",
    scope: "sandbox:read",
    requiresSandbox: true,
  },
  resetSandbox: {
    method: "POST",
    path: "/sandbox/reset",
    summary: "Reset sandbox fixtures",
    scope: "sandbox:write",
    requiresSandbox: true,
  },
  listWebhookEndpoints: {
    method: "GET",
    path: "/webhook-endpoints",
    summary: "List webhook endpoints",
    scope: "webhooks:read",
    requiresClinic: true,
  },
  createWebhookEndpoint: {
    method: "POST",
    path: "/webhook-endpoints",
    summary: "Create webhook endpoint",
    scope: "webhooks:write",
    requiresClinic: true,
  },
  revokeWebhookEndpoint: {
    method: "DELETE",
    path: "/webhook-endpoints/:endpointId",
    summary: "Revoke webhook endpoint",
    scope: "webhooks:write",
    requiresClinic: true,
  },
  rotateWebhookSecret: {
    method: "POST",
    path: "/webhook-endpoints/:endpointId/rotate-secret",
    summary: "Rotate webhook signing secret",
    scope: "webhooks:write",
    requiresClinic: true,
  },
  testWebhookEndpoint: {
    method: "POST",
    path: "/webhook-endpoints/:endpointId/test",
    summary: "Send a test event",
    scope: "webhooks:write",
    requiresClinic: true,
  },
  listWebhookDeliveries: {
    method: "GET",
    path: "/webhook-endpoints/:endpointId/deliveries",
    summary: "List recent deliveries",
    scope: "webhooks:read",
    requiresClinic: true,
  },
  replayWebhookDelivery: {
    method: "POST",
    path: "/webhook-endpoints/:endpointId/deliveries/:deliveryId/replay",
    summary: "Replay a failed delivery",
    scope: "webhooks:write",
    requiresClinic: true,
  },
} as const satisfies Record<string, PartnerOperation>;

export type PartnerOperationId = keyof typeof partnerOperations;
