/** Appends the events of applications, endpoints and appointments without the deciders. */
import { randomBytes, randomUUID } from "node:crypto";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { Environment } from "../../../shared/domain/events/fields.ts";
import { deriveInstallationId } from "../../../shared/domain/events/ids.ts";
import type { AnimalAccess, DeliveryOrdering, SubscribedEventType } from "../../../shared/domain/events/partner.ts";
import { type EventLog, WrongExpectedRevisionError } from "../../../shared/eventstore/log.ts";
import { appointmentRequested } from "../../support/clinics.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";
import { SECRET_KEYS } from "./service-settings.ts";

export interface Endpoint {
  endpointId: string;
  applicationId: string;
  clinicId: string;
  installationId: string;
  secret: string;
}

export interface EndpointOptions {
  clinicId: string;
  applicationId: string;
  environment: Environment;
  events: SubscribedEventType[];
  branchIds: string[] | null;
  animalAccess: AnimalAccess;
  ordering: DeliveryOrdering;
  /** If true, the endpoint receives events about the access of its application. */
  belongsToApplication: boolean;
  /** Existing endpoint whose application and installation the new endpoint uses. */
  siblingEndpoint: Endpoint;
}

export interface AppointmentOptions {
  environment?: Environment;
  branchId?: string;
  animalId?: string | null;
}

/** A new appointment, and the id of its first event. */
export interface RequestedAppointment {
  appointmentId: string;
  eventId: string;
}

export const secretBox = createSecretBox(SECRET_KEYS);

type Append = ReturnType<typeof createAppender>;

/** @returns a function that appends an event to a stream and returns the event's id */
export function createAppender(log: EventLog) {
  return async (
    stream: string,
    event: CatalogEvent,
    options: { environment?: Environment; clinicId?: string } = {},
  ): Promise<string> => {
    // The id of a test is that of its event.
    const id = event.type === "WebhookEndpointTested" ? event.data.testId : randomUUID();
    const metadata = { ...createStoredMetadata(event), ...options, occurredAt: new Date().toISOString() };
    // The service may append to the same stream concurrently.
    for (;;) {
      const lastEvent = await log.readLast(stream);
      const clinicId = lastEvent ? lastEvent.metadata.clinicId : metadata.clinicId;
      const newEvent = { id, event, metadata: { ...metadata, clinicId } };
      try {
        await log.append(stream, lastEvent?.revision ?? -1n, [newEvent]);
        return id;
      } catch (error) {
        if (!(error instanceof WrongExpectedRevisionError)) throw error;
      }
    }
  };
}

/**
 * Registers an endpoint. Without `options.siblingEndpoint`, first registers an application and installs it at a clinic.
 */
export async function registerEndpoint(
  append: Append,
  url: string,
  options: Partial<EndpointOptions>,
): Promise<Endpoint> {
  const { events = ["appointment.created", "appointment.updated"], environment = "production" } = options;
  const installation = options.siblingEndpoint ?? (await installApplication(append, url, options));
  const { applicationId, clinicId, installationId } = installation;
  const endpointId = randomUUID();
  const secret = `whsec_${randomBytes(32).toString("base64")}`;
  const encryptedSecret = await secretBox.seal(secret);
  const owner = { endpointId, applicationId, clinicId: options.belongsToApplication ? null : clinicId, environment };
  await append(
    `webhookEndpoint-${endpointId}`,
    { type: "WebhookEndpointRegistered", data: { ...owner, url, events, secretId: randomUUID(), encryptedSecret } },
    { environment },
  );
  const { ordering } = options;
  if (ordering) {
    const data = { endpointId, ordering };
    await append(`webhookEndpoint-${endpointId}`, { type: "WebhookEndpointChanged", data });
  }
  return { endpointId, applicationId, clinicId, installationId, secret };
}

/** Registers an application with an approved origin, and installs it at a clinic. */
async function installApplication(append: Append, url: string, options: Partial<EndpointOptions>) {
  const { applicationId = randomUUID(), clinicId = randomUUID(), environment = "production" } = options;
  const { branchIds = null, animalAccess = "all" } = options;
  const scopes = ["webhooks:write" as const];
  const installationId = deriveInstallationId(applicationId, clinicId);
  await append(`partnerApplication-${applicationId}`, {
    type: "ApplicationRegistered",
    data: { applicationId, environment, name: "Calendar", scopes },
  });
  await append(`partnerApplication-${applicationId}`, {
    type: "WebhookOriginApproved",
    data: { applicationId, origin: new URL(url).origin },
  });
  const grant = { scopes, branchIds, animalAccess, approvedBy: null, rateLimitPerMinute: 100 };
  await append(`installation-${installationId}`, {
    type: "InstallationApproved",
    data: { installationId, applicationId, clinicId, ...grant },
  });
  return { applicationId, clinicId, installationId };
}

export async function requestAppointment(
  append: Append,
  clinicId: string,
  options: AppointmentOptions,
): Promise<RequestedAppointment> {
  const appointmentId = randomUUID();
  const { environment = "production", branchId = randomUUID(), animalId = randomUUID() } = options;
  const references = { appointmentId, animalId, customerId: randomUUID(), notes: "not for partners" };
  const event = appointmentRequested(clinicId, branchId, "2030-05-01T09:00:00.000Z", references);
  const eventId = await append(`appointment-${appointmentId}`, event, { environment, clinicId });
  return { appointmentId, eventId };
}
