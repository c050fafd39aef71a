import { isEqual } from "../domain/equal.ts";
import type { CatalogEvent, CatalogEventType } from "../domain/events/catalog.ts";
import type { EventMetadata } from "../domain/events/metadata.ts";
import type { PublicEventType } from "../domain/events/partner.ts";
import type { Endpoint } from "../domain/partner/webhook-endpoint.ts";
import type { appointmentSnapshot } from "./records.ts";
import { type AppointmentChange, type ChangingField, changingFields, type eventBodies } from "./webhook-body.ts";

type Snapshot = ReturnType<typeof appointmentSnapshot.pick>;

/** States of the endpoint or the appointment that an event changes. */
interface EventContext {
  /** The endpoint after the event. */
  endpoint?: Pick<Endpoint, "id" | "url" | "status">;
  /** The appointment before the event; absent if the event creates it. */
  before?: Pick<Snapshot, ChangingField>;
  /** The appointment after the event. */
  after?: Snapshot;
}

type Cause = CatalogEvent & { metadata: EventMetadata };

interface PublicEvent {
  title: string;
  /** Further text for the API reference. */
  text: string;
  /** Name of the body's schema in the API reference. */
  body: keyof typeof eventBodies;
  /**
   * Functions that return the data of the public event, by type of the causing event in the log. A function returns
   * undefined if partners do not receive the event.
   */
  from: {
    readonly [Type in CatalogEventType]?: (
      event: Extract<Cause, { type: Type }>,
      context: EventContext,
    ) => object | undefined;
  };
}

const orderText = `**Order.** By default, deliveries can arrive in any order. The service sends several deliveries at the
same time, and a retry or replay can arrive after newer events. If the endpoint has the setting \`ordering: appointment\`,
an event is sent only after the deliveries of all earlier events of the same appointment have ended. Replays arrive out
of order in any case. Every event contains the appointment's state after that event,
and the revision of this state in \`data.appointment.revision\`. Each change increases the revision. Revisions can
have gaps, because some changes send no event. Store the highest revision for each appointment id, and discard events
with the same or a lower revision. For example, in SQL:

\`\`\`sql
INSERT INTO appointment (id, revision, record) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET revision = $2, record = $3
WHERE appointment.revision < $2
\`\`\`

\`GET /appointments\` returns the same revisions, so you can merge lists and events with the same rule. A sandbox
reset replaces all appointments. After a reset, delete the revisions that you stored for the sandbox.`;

const recipientsText = `This event is sent to endpoints of the same application at the same clinic, if their setting
\`operationalEvents\` contains its type. If the endpoint belongs to the application, the event is sent to other
endpoints that belong to the application, and \`clinicId\` is null. It contains no appointment and no revision.`;

const failingText = `The endpoint has been failing for at least five minutes, with at least three failed attempts and no
success. The event is sent at most once per endpoint and day (UTC), and never to the failing endpoint itself.

${recipientsText}`;

const disabledText = `The endpoint was disabled, for the reason in \`data.reason\`. The event is never sent to the
disabled endpoint itself.

${recipientsText}`;

const expiringText = `After a secret rotation, deliveries are also signed with the former secret for 24 hours. This event
is sent once, about six hours before the former secret expires. If you see it and still verify with the former secret,
switch to the new secret. A former secret that expires immediately, because it has leaked, sends no event.

${recipientsText}`;

const accessText = `This event is sent only to endpoints that belong to the application, for all its clinics.
\`clinicId\` names the clinic. Deliveries can arrive in any order, so keep the event with the latest \`createdAt\` for
each clinic or link.`;

const toAppointment = ({ metadata }: Cause, { before, after }: EventContext) =>
  after && { appointment: after, ...(before && { change: describeChange(before, after, metadata) }) };

/** Returns undefined if an unused link code was withdrawn, because no link has ended. */
const toLink = ({
  data: { linkId: id, animalId },
}: Extract<Cause, { type: "AnimalLinked" | "AnimalLinkWithdrawn" }>) =>
  id === null ? undefined : { link: { id, animalId } };

const toAccess = ({ data }: Extract<Cause, { type: "InstallationApproved" | "InstallationNarrowed" }>) => {
  const { scopes, branchIds, animalAccess } = data;
  return { installation: { scopes, branchIds, animalAccess } };
};

const toReference = ({ id, url }: Pick<Endpoint, "id" | "url">) => ({ id, url });

/** Events that partners receive, by public type. Webhooks, feed, read model and documents use this table. */
export const publicEvents = {
  "appointment.created": {
    title: "An appointment was created",
    text: orderText,
    body: "AppointmentEvent",
    from: { AppointmentRequested: toAppointment },
  },
  "appointment.updated": {
    title: "An appointment was changed",
    text: orderText,
    body: "AppointmentEvent",
    // Of an imported appointment, partners receive only the changes after the import.
    from: {
      AppointmentConfirmed: toAppointment,
      AppointmentCheckedIn: toAppointment,
      AppointmentPutInWaiting: toAppointment,
      ConsultationStarted: toAppointment,
      AppointmentCompleted: toAppointment,
      AppointmentCancelled: toAppointment,
      AppointmentMarkedNoShow: toAppointment,
      AppointmentRescheduled: toAppointment,
      ResourceAllocated: toAppointment,
      ResourceReleased: toAppointment,
    },
  },
  "endpoint.test": {
    title: "You requested a test event",
    text: "A test event contains no appointment and no revision.",
    body: "TestEvent",
    from: { WebhookEndpointTested: () => ({ test: true }) },
  },
  "endpoint.failing": {
    title: "An endpoint keeps failing",
    text: failingText,
    body: "EndpointFailingEvent",
    from: {
      WebhookEndpointFailureReported: ({ data: { since: failingSince, failedAttempts } }, { endpoint }) =>
        endpoint && { endpoint: toReference(endpoint), failingSince, failedAttempts },
    },
  },
  "endpoint.disabled": {
    title: "An endpoint was disabled",
    text: disabledText,
    body: "EndpointDisabledEvent",
    from: {
      // The event may come just after a revocation, and then changes nothing.
      WebhookEndpointDisabled: ({ data: { reason } }, { endpoint }) =>
        endpoint?.status === "disabled" ? { endpoint: toReference(endpoint), reason } : undefined,
    },
  },
  "secret.expiring": {
    title: "A former signing secret expires soon",
    text: expiringText,
    body: "SecretExpiringEvent",
    from: {
      WebhookSecretExpiryReported: ({ data: { expiresAt } }, { endpoint }) =>
        endpoint && { endpoint: toReference(endpoint), expiresAt },
    },
  },
  "installation.approved": {
    title: "A clinic approved your application",
    text: accessText,
    body: "InstallationEvent",
    from: { InstallationApproved: toAccess },
  },
  "installation.access_changed": {
    title: "A clinic changed your application's access",
    text: accessText,
    body: "InstallationEvent",
    from: { InstallationNarrowed: toAccess },
  },
  "installation.revoked": {
    title: "A clinic revoked your application's access",
    text: accessText,
    body: "InstallationEvent",
    from: { InstallationRevoked: () => ({ installation: null }) },
  },
  "animal_link.created": {
    title: "An animal was linked",
    text: accessText,
    body: "AnimalLinkEvent",
    from: { AnimalLinked: toLink },
  },
  "animal_link.withdrawn": {
    title: "A link to an animal ended",
    text: accessText,
    body: "AnimalLinkEvent",
    from: { AnimalLinkWithdrawn: toLink },
  },
  "sandbox.reset": {
    title: "The sandbox was reset",
    text: "",
    body: "SandboxResetEvent",
    from: { SandboxReset: ({ data: { generation, day } }) => ({ sandbox: { generation, day } }) },
  },
} as const satisfies Record<PublicEventType, PublicEvent>;

const causes = new Map(
  (Object.entries(publicEvents) as [PublicEventType, PublicEvent][]).flatMap(([type, { from }]) =>
    Object.entries(from).map(([cause, toData]) => [
      cause as CatalogEventType,
      { type, toData: toData as (event: Cause, context: EventContext) => object | undefined },
    ]),
  ),
);

/** Returns the public type for an event type of the log; null if partners do not receive such events. */
export function getPublicType(type: CatalogEventType): PublicEventType | null {
  return causes.get(type)?.type ?? null;
}

/** Returns the public data of an event of the log; undefined if partners do not receive the event. */
export function toPublicData(event: Cause, context: EventContext): object | undefined {
  return causes.get(event.type)?.toData(event, context);
}

function describeChange(
  formerAppointment: Pick<Snapshot, ChangingField>,
  appointment: Pick<Snapshot, ChangingField>,
  { actor, environment }: EventMetadata,
): AppointmentChange {
  const fieldChanges = (Object.keys(changingFields) as ChangingField[])
    .map((name) => [name, { from: formerAppointment[name], to: appointment[name] }] as const)
    .filter(([, { from, to }]) => !isEqual(from, to));
  const isByApplication = actor.type === "application" && environment === "production";
  const causedBy = actor.type === "system" ? "system" : isByApplication ? "application" : "clinic";
  return { causedBy, fields: Object.fromEntries(fieldChanges) };
}
