import { z } from "zod";
import { type Appointment, appointmentStatuses } from "../domain/appointment/appointment.ts";
import { consentCoverage } from "../domain/events/consent.ts";
import {
  applicationEventType,
  deliveryOrdering,
  operationalEventType,
  replayableStatus,
  webhookBodyFormat,
  webhookEventType,
} from "../domain/events/partner.ts";
import { WEBHOOK_KEYS_PATH } from "../webhooks/asymmetric-signature.ts";

const uuid = z.guid();
const instant = z.iso.datetime({ precision: 3 });

/** Schema of an appointment in the partner API. Webhook bodies omit the notes. */
export const partnerAppointment = z.strictObject({
  id: z.uuid(),
  clinicId: z.uuid(),
  branchId: z.uuid(),
  animalId: z.uuid().nullable(),
  scheduledAt: z.iso.datetime(),
  durationMinutes: z.int(),
  status: z.enum(appointmentStatuses),
  notes: z.string().nullable(),
  revision: z
    .int()
    .min(0)
    .describe(
      "Revision of the appointment. Each change increases it by one or more. If you have two records of an appointment, the record with the higher revision is newer.",
    ),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
});
type PartnerAppointment = z.infer<typeof partnerAppointment>;

/**
 * Converts an appointment to its form in the partner API.
 *
 * @param revision revision of the appointment's last event
 */
export function toPartnerAppointment(appointment: Appointment, revision: bigint): PartnerAppointment {
  const { id, clinicId, branchId, animalId, scheduledAt, durationMinutes, status, notes } = appointment;
  return {
    id,
    clinicId,
    branchId,
    animalId,
    scheduledAt,
    durationMinutes,
    status,
    notes,
    revision: Number(revision),
    createdAt: appointment.createdAt,
    updatedAt: appointment.updatedAt,
  };
}

export const animalAccessText =
  "Animals whose data your application sees. `all`: all animals of the clinic. `linked`: animals with a link; other animals and appointments without an animal appear not to exist.";

/** Schema of a link to an animal in the partner API. */
export const animalLinkRecord = z.strictObject({
  id: uuid,
  animal: z.strictObject({ id: uuid, name: z.string(), species: z.string() }),
  consent: z.strictObject({
    covers: consentCoverage.describe(
      "`appointments_read`: your application reads the animal's appointments. `appointments_write`: it also creates appointments of the animal.",
    ),
    grantedAt: instant.describe("Time at which your application redeemed the code."),
  }),
});

/** Schema of a sandbox in the partner API. All lists in the record are sorted by name, then by id. */
export const sandboxRecord = z.strictObject({
  clinicId: uuid.describe("Id of the sandbox's clinic, for the clinic header of other operations."),
  generation: z.int().min(1).describe("Number of times that the sandbox has been filled with the fixture."),
  resetAt: instant,
  day: z.iso.date().describe("Day (UTC) of the fixture data."),
  branches: z.array(z.strictObject({ id: uuid, name: z.string() })),
  animals: z.array(z.strictObject({ id: uuid, name: z.string(), species: z.string() })),
  appointments: z.int().min(0).describe("Current number of appointments."),
});
export type SandboxRecord = z.infer<typeof sandboxRecord>;

export const webhookEndpointRecord = z.strictObject({
  id: uuid,
  clinicId: uuid,
  url: z.url(),
  events: z.array(webhookEventType),
  status: z.enum(["active", "disabled", "revoked"]),
  disabledReason: z
    .string()
    .nullable()
    .describe(
      "Reason why the endpoint is disabled; null if it is not disabled. `operator`: the operator disabled it, and only the operator can enable it. `partner`: the application disabled it. `gone`: the receiver returned 410. `no_success`: five days of repeated failures.",
    ),
  createdAt: instant,
  updatedAt: instant,
});

/** Members that differ if an endpoint belongs to the application. */
const applicationMembers = {
  clinicId: z.null().describe("Null, because the endpoint belongs to the application."),
  events: z.array(applicationEventType),
};

export const applicationEndpointRecord = webhookEndpointRecord.extend(applicationMembers);

export const orderingText =
  "Order of deliveries. `none`: events arrive in any order. `appointment`: an attempt starts only after all deliveries of earlier events of the same appointment have ended. A delivery that keeps failing delays only later events of its own appointment. Events do not wait for deliveries that were created before the setting.";

export const bodyFormatText =
  "Format of the bodies. `standard`: JSON as described for each event. `cloudevents`: a CloudEvent 1.0 in the structured mode, with the content type `application/cloudevents+json`. Both formats have the same `data`.";

export const asymmetricSignatureText = `True if deliveries have an Ed25519 signature (\`v1a\`) in addition to the HMAC signature. It is verified with the public keys at \`${WEBHOOK_KEYS_PATH}\`, without the endpoint's secret.`;

/** Schema of a webhook endpoint with all its settings. The values of custom headers are never returned. */
export const webhookEndpointDetail = z.strictObject({
  ...webhookEndpointRecord.shape,
  operationalEvents: z
    .array(operationalEventType)
    .describe("Types of events about the application's endpoints that this endpoint receives."),
  branchIds: z
    .array(uuid)
    .nullable()
    .describe("Branches whose events the endpoint receives; null for all branches of the installation."),
  headerNames: z.array(z.string()).describe("Names of the custom headers. Their values are never returned."),
  rateLimitPerSecond: z.int().min(1).nullable().describe("Maximum number of attempts per second; null for no limit."),
  ordering: deliveryOrdering.describe(orderingText),
  bodyFormat: webhookBodyFormat.describe(bodyFormatText),
  asymmetricSignature: z.boolean().describe(asymmetricSignatureText),
});
export const applicationEndpointDetail = webhookEndpointDetail.extend(applicationMembers);

export const webhookReplayRecord = z.strictObject({
  id: uuid,
  endpointId: uuid,
  since: instant.nullable().describe("Start of the range of creation times. Null if `deliveryIds` selects deliveries."),
  until: instant.describe("End of the range of creation times, exclusive."),
  statuses: z.array(replayableStatus).describe("Statuses of the deliveries to replay."),
  deliveryIds: z.array(uuid).nullable().describe("Deliveries to replay. Null if `since` selects deliveries."),
  status: z
    .enum(["pending", "running", "completed", "stopped"])
    .describe(
      "`completed`: all replays are queued, and the list of deliveries shows their outcomes. `stopped`: before that, the endpoint lost the right to receive deliveries, for example because it was disabled.",
    ),
  replayedCount: z.int().min(0).describe("Number of deliveries that were queued again."),
  notReplayedCount: z
    .int()
    .min(0)
    .describe(
      "Number of deliveries that could not be replayed, because their event is no longer available. Ids in `deliveryIds` without a replayable delivery count too.",
    ),
  requestedAt: instant,
  finishedAt: instant.nullable(),
});
export type WebhookReplayRecord = z.infer<typeof webhookReplayRecord>;
