import { uuid } from "../../../shared/domain/events/fields.ts";

/** What can be asked for as a whole, and the beginnings of the names of the streams that can hold something of it. */
const reach = {
  appointment: ["appointment-", "queueTicket-", "webhookDelivery-", "webhookEndpoint-", "sandbox-"],
  customer: [
    ...["customer-", "animal-", "appointment-", "queueTicket-"],
    ...["webhookDelivery-", "webhookEndpoint-", "sandbox-"],
  ],
  animal: [
    ...["animal-", "appointment-", "queueTicket-"],
    ...["webhookDelivery-", "webhookEndpoint-", "sandbox-"],
  ],
  clinic: undefined,
  application: [
    ...["partnerApplication-", "installation-", "webhookEndpoint-", "webhookEndpointPlaces-"],
    ...["webhookDelivery-", "appointment-", "sandbox-", "clinic-"],
  ],
  correlation: undefined,
  auditor: ["auditor-", "auditAccess-"],
} as const satisfies Record<string, readonly string[] | undefined>;

export type SubjectKind = keyof typeof reach;
export const subjectKinds = Object.keys(reach) as SubjectKind[];

/** One thing that everything is asked for about. */
export interface Subject {
  kind: SubjectKind;
  id: string;
}

/** The streams among which the log looks, undefined for all of them: the server leaves the others out. */
export function prefixesFor(kind: SubjectKind): readonly string[] | undefined {
  return reach[kind];
}

/** Any RFC 9562 text form, in lower case. */
export const subjectId = uuid;
