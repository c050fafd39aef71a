import type { Scope } from "../domain/events/partner.ts";

/** One operation of the partner API, as far as both services that serve it must agree. */
export interface PartnerOperation {
  method: "GET" | "POST" | "DELETE";
  /** Below the base, `/{sandbox|production}/v1`; parameters as in @koa/router. */
  path: string;
  summary: string;
  /** What the token and the installation must allow; null where no token is asked. */
  scope: Scope | null;
  /** Whether it needs the clinic header and an installation there. */
  clinic: boolean;
  /** Whether it is about the application's own sandbox, whose clinic no header names. */
  sandbox?: boolean;
}

/** The whole partner API. GET is served by query-api, everything else by command. */
export const partnerOperations = {
  exchangeToken: {
    method: "POST",
    path: "/oauth/token",
    summary: "Exchange client credentials",
    scope: null,
    clinic: false,
  },
  getClinicContext: {
    method: "GET",
    path: "/clinic/context",
    summary: "Get authorized clinic context",
    scope: "clinic:read",
    clinic: true,
  },
  listPartnerAppointments: {
    method: "GET",
    path: "/appointments",
    summary: "List appointments",
    scope: "appointments:read",
    clinic: true,
  },
  createPartnerAppointment: {
    method: "POST",
    path: "/appointments",
    summary: "Create an appointment",
    scope: "appointments:write",
    clinic: true,
  },
  getSandboxState: {
    method: "GET",
    path: "/sandbox",
    summary: "Get sandbox state",
    scope: "sandbox:read",
    clinic: false,
    sandbox: true,
  },
  resetSandbox: {
    method: "POST",
    path: "/sandbox/reset",
    summary: "Reset sandbox fixtures",
    scope: "sandbox:write",
    clinic: false,
    sandbox: true,
  },
  listWebhookEndpoints: {
    method: "GET",
    path: "/webhook-endpoints",
    summary: "List webhook endpoints",
    scope: "webhooks:read",
    clinic: true,
  },
  createWebhookEndpoint: {
    method: "POST",
    path: "/webhook-endpoints",
    summary: "Create webhook endpoint",
    scope: "webhooks:write",
    clinic: true,
  },
  revokeWebhookEndpoint: {
    method: "DELETE",
    path: "/webhook-endpoints/:endpointId",
    summary: "Revoke webhook endpoint",
    scope: "webhooks:write",
    clinic: true,
  },
  rotateWebhookSecret: {
    method: "POST",
    path: "/webhook-endpoints/:endpointId/rotate-secret",
    summary: "Rotate webhook signing secret",
    scope: "webhooks:write",
    clinic: true,
  },
  testWebhookEndpoint: {
    method: "POST",
    path: "/webhook-endpoints/:endpointId/test",
    summary: "Send a test event",
    scope: "webhooks:write",
    clinic: true,
  },
  listWebhookDeliveries: {
    method: "GET",
    path: "/webhook-endpoints/:endpointId/deliveries",
    summary: "List recent deliveries",
    scope: "webhooks:read",
    clinic: true,
  },
  replayWebhookDelivery: {
    method: "POST",
    path: "/webhook-endpoints/:endpointId/deliveries/:deliveryId/replay",
    summary: "Replay a failed delivery",
    scope: "webhooks:write",
    clinic: true,
  },
} as const satisfies Record<string, PartnerOperation>;

export type PartnerOperationId = keyof typeof partnerOperations;
