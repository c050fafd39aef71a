import { z } from "zod";
import { type Appointment, appointmentStatuses } from "../domain/appointment/appointment.ts";
import { consentCoverage } from "../domain/events/consent.ts";
import {
  animalAccess,
  deliveryOrdering,
  operationalEventType,
  rateLimit,
  replayableStatus,
  scope,
  subscribedEventType,
  webhookBodyFormat,
} from "../domain/events/partner.ts";
import { DEFAULT_RATE_LIMIT_PER_MINUTE } from "../domain/partner/installation.ts";
import { READ_MODEL_SCHEMA } from "../postgres/read-model-schema.ts";
import { WEBHOOK_KEYS_PATH } from "../webhooks/asymmetric-signature.ts";
import { defineRecord } from "./define-record.ts";

const uuid = z.guid();
const instant = z.iso.datetime({ precision: 3 });

const partnerResource = z.strictObject({ id: uuid, allocationStart: instant, allocationEnd: instant });
export type PartnerResource = z.infer<typeof partnerResource>;

/** An appointment in the partner API, from a row `a` of its read model. Webhook bodies omit the notes. */
export const publicAppointment = defineRecord(
  "a",
  {
    id: uuid,
    clinicId: uuid,
    branchId: uuid,
    animalId: uuid.nullable(),
    scheduledAt: instant,
    durationMinutes: z.int(),
    status: z.enum(appointmentStatuses),
    notes: z.string().nullable(),
    resources: z
      .array(partnerResource)
      .describe("Resources that are allocated to the appointment, sorted by start. Released resources are not listed."),
    revision: z
      .int()
      .min(0)
      .describe(
        "Revision of the appointment. Each change increases it by one or more. If you have two records of an appointment, the record with the higher revision is newer.",
      ),
    createdAt: instant,
    updatedAt: instant,
  },
  { id: "appointment_id", resources: "('{' || a.partner_json || '}')::json -> 'resources'" },
);
type PartnerAppointment = z.infer<typeof publicAppointment.schema>;

/**
 * Appointment fields in the data of a public event. The ids and `updatedAt` come from other columns of the event's row.
 * Events contain no notes.
 */
export const appointmentSnapshot = publicAppointment.omit(
  ...(["id", "clinicId", "branchId", "animalId", "notes", "updatedAt"] as const),
);

/**
 * Converts an appointment to its form in the partner API.
 *
 * @param revision revision of the appointment's last event
 */
export function toPartnerAppointment(appointment: Appointment, revision: bigint): PartnerAppointment {
  return publicAppointment.pick({
    ...appointment,
    resources: listResources(appointment),
    revision: Number(revision),
  });
}

function listResources({ assignments }: Appointment): PartnerResource[] {
  return assignments
    .filter(({ active }) => active)
    .sort((a, b) => (a.start + a.id < b.start + b.id ? -1 : 1))
    .map(({ resourceId: id, start: allocationStart, end: allocationEnd }) => ({ id, allocationStart, allocationEnd }));
}

export const animalAccessText =
  "Animals whose data your application sees. `all`: all animals of the clinic. `linked`: animals with a link; other animals and appointments without an animal appear not to exist.";

const linkedAnimal = defineRecord("", { id: uuid, name: z.string(), species: z.string() }, { id: "animal_id" });
const linkConsent = defineRecord(
  "",
  {
    covers: consentCoverage.describe(
      "`appointments_read`: your application reads the animal's appointments. `appointments_write`: it also creates appointments of the animal.",
    ),
    grantedAt: instant.describe("Time at which your application redeemed the code."),
  },
  { grantedAt: "linked_at" },
);

/** A link to an animal in the partner API, from a row that joins the link and its animal. */
export const publicLink = defineRecord(
  "",
  { id: uuid, animal: linkedAnimal.schema, consent: linkConsent.schema },
  { id: "link_id", animal: linkedAnimal.sql, consent: linkConsent.sql },
);

/** An installation in the partner API, from a row `i` of its read model with the name of the clinic. */
export const publicInstallation = defineRecord(
  "i",
  {
    clinicId: uuid.describe("Id of the clinic, for the clinic header of other operations."),
    clinicName: z.string(),
    scopes: z.array(scope),
    branchIds: z.array(uuid).nullable().describe("Branches that the installation covers; null for all branches."),
    animalAccess: animalAccess.describe(animalAccessText),
    rateLimitPerMinute: rateLimit,
  },
  { rateLimitPerMinute: `coalesce(i.rate_limit_per_minute, ${DEFAULT_RATE_LIMIT_PER_MINUTE})` },
);

export const installationAccess = publicInstallation.omit("clinicId", "clinicName");

/**
 * Returns the beginning of SQL that aggregates rows as JSON, sorted by the bytes of the name, as for a sandbox reset.
 */
const aggregateByName = (json: string, alias: string, column: string) =>
  `coalesce((SELECT json_agg(${json} ORDER BY ${alias}.name COLLATE "C", ${alias}.${column})`;

const sandboxBranch = defineRecord("b", { id: uuid, name: z.string() }, { id: "branch_id" });
const sandboxAnimal = defineRecord("n", { id: uuid, name: z.string(), species: z.string() }, { id: "animal_id" });

/** A sandbox in the partner API, from a row `s` of its read model. All lists are sorted by name, then by id. */
export const publicSandbox = defineRecord(
  "s",
  {
    clinicId: uuid.describe("Id of the sandbox's clinic, for the clinic header of other operations."),
    generation: z.int().min(1).describe("Number of times that the sandbox has been filled with the fixture."),
    resetAt: instant,
    day: z.iso.date().describe("Day (UTC) of the fixture data."),
    branches: z.array(sandboxBranch.schema),
    animals: z.array(sandboxAnimal.schema),
    appointments: z.int().min(0).describe("Current number of appointments."),
  },
  {
    branches: `${aggregateByName(sandboxBranch.sql, "b", "branch_id")}
      FROM ${READ_MODEL_SCHEMA}.branch b WHERE b.clinic_id = s.clinic_id), '[]')`,
    animals: `${aggregateByName(sandboxAnimal.sql, "n", "animal_id")}
      FROM ${READ_MODEL_SCHEMA}.customer c JOIN ${READ_MODEL_SCHEMA}.animal n ON n.customer_id = c.customer_id
      WHERE c.clinic_id = s.clinic_id), '[]')`,
    appointments: `(SELECT count(*) FROM ${READ_MODEL_SCHEMA}.appointment p WHERE p.clinic_id = s.clinic_id)`,
  },
);
export type SandboxRecord = z.infer<typeof publicSandbox.schema>;

/** A webhook endpoint in lists, from a row `e` of its read model. */
export const webhookEndpoint = defineRecord(
  "e",
  {
    id: uuid,
    clinicId: uuid.nullable().describe("Clinic of the endpoint. Null if the endpoint belongs to the application."),
    url: z.url(),
    events: z.array(subscribedEventType),
    status: z.enum(["active", "disabled", "revoked"]),
    disabledReason: z
      .string()
      .nullable()
      .describe(
        "Reason why the endpoint is disabled; null if it is not disabled. `operator`: the operator disabled it, and only the operator can enable it. `partner`: the application disabled it. `gone`: the receiver returned 410. `no_success`: five days of repeated failures.",
      ),
    createdAt: instant,
    updatedAt: instant,
  },
  { id: "endpoint_id" },
);

export const orderingText =
  "Order of deliveries. `none`: events arrive in any order. `appointment`: an attempt starts only after all deliveries of earlier events of the same appointment have ended. A delivery that keeps failing delays only later events of its own appointment. Events do not wait for deliveries that were created before the setting.";

export const bodyFormatText =
  "Format of the bodies. `standard`: JSON as described for each event. `cloudevents`: a CloudEvent 1.0 in the structured mode, with the content type `application/cloudevents+json`. Both formats have the same `data`.";

export const asymmetricSignatureText = `True if deliveries have an Ed25519 signature (\`v1a\`) in addition to the HMAC signature. It is verified with the public keys at \`${WEBHOOK_KEYS_PATH}\`, without the endpoint's secret.`;

/** A webhook endpoint with all its settings. The values of custom headers are never returned. */
export const webhookEndpointDetail = webhookEndpoint.extend({
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

/**
 * A replay of several deliveries, from a row `r` of its read model and a row `w` of `webhooks.replay`. The outcome
 * appears in `w` first. The row `w` is missing before the replay starts, and after old replays were deleted.
 */
export const webhookReplay = defineRecord(
  "r",
  {
    id: uuid,
    endpointId: uuid,
    since: instant
      .nullable()
      .describe("Start of the range of creation times. Null if `deliveryIds` selects deliveries."),
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
      .describe("Number of ids in `deliveryIds` without a delivery that can be replayed."),
    requestedAt: instant,
    finishedAt: instant.nullable(),
  },
  {
    id: "replay_id",
    status: "coalesce(r.outcome, w.outcome, CASE WHEN w.replay_id IS NULL THEN 'pending' ELSE 'running' END)",
    replayedCount: "greatest(r.replayed_count, w.replayed_count)",
    notReplayedCount: "greatest(r.not_replayed_count, w.not_replayed_count)",
    finishedAt: "coalesce(r.finished_at, CASE WHEN w.outcome IS NOT NULL THEN w.updated_at END)",
  },
);
export type WebhookReplayRecord = z.infer<typeof webhookReplay.schema>;
