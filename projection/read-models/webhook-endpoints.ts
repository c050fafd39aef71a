import { createUpdateHandler, defineReadModel } from "../engine/read-model.ts";

export const webhookEndpoints = defineReadModel({
  table: "webhook_endpoint",
  columns: {
    endpoint_id: "uuid",
    application_id: "uuid",
    clinic_id: "uuid",
    environment: "text",
    url: "text",
    /** Scheme, host and port of the URL. In production, an operator must approve the origin for the application. */
    origin: "text",
    events: "jsonb",
    status: "text",
    disabled_reason: "text",
    /** Time at which the endpoint was last enabled or registered. */
    enabled_at: "timestamptz",
    secret_rotated_at: "timestamptz",
    /** Log position of the registration. The endpoint receives no earlier events. */
    registered_position: "bigint",
    created_at: "timestamptz",
    updated_at: "timestamptz",
  },
  nullable: ["disabled_reason", "secret_rotated_at"],
  primaryKey: ["endpoint_id"],
  auditColumns: ["endpoint_id", "clinic_id", "origin"],
  indexes: ["clinic_id, application_id, created_at"],
  key: (event) => [event.data.endpointId],
  on: {
    WebhookEndpointRegistered: (_, { data, metadata, position }) => ({
      endpoint_id: data.endpointId,
      application_id: data.applicationId,
      clinic_id: data.clinicId,
      environment: data.environment,
      url: data.url,
      origin: new URL(data.url).origin,
      events: data.events,
      status: "active",
      disabled_reason: null,
      enabled_at: metadata.occurredAt,
      secret_rotated_at: null,
      registered_position: String(position),
      created_at: metadata.occurredAt,
      updated_at: metadata.occurredAt,
    }),
    WebhookSecretRotated: createUpdateHandler(({ metadata }) => ({
      secret_rotated_at: metadata.occurredAt,
      updated_at: metadata.occurredAt,
    })),
    WebhookEndpointDisabled: createUpdateHandler(({ data, metadata }, row) =>
      row.status === "active"
        ? { status: "disabled", disabled_reason: data.reason, updated_at: metadata.occurredAt }
        : {},
    ),
    WebhookEndpointEnabled: createUpdateHandler(({ metadata }, row) =>
      row.status === "disabled"
        ? {
            status: "active",
            disabled_reason: null,
            enabled_at: metadata.occurredAt,
            updated_at: metadata.occurredAt,
          }
        : {},
    ),
    WebhookEndpointRevoked: createUpdateHandler(({ metadata }) => ({
      status: "revoked",
      disabled_reason: null,
      updated_at: metadata.occurredAt,
    })),
  },
});
