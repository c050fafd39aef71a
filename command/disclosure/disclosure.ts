import { z } from "zod";
import { auditAction } from "../../shared/domain/events/audit.ts";
import { consentCoverage } from "../../shared/domain/events/consent.ts";
import { personalDataCategorySchema } from "../../shared/domain/events/erasure.ts";
import { freeForm, instant, uuid } from "../../shared/domain/events/fields.ts";
import { animalLinkRecord, partnerAppointment } from "../../shared/partner-api/records.ts";
import { appointmentBody } from "../../shared/partner-api/webhook-body.ts";

const actor = z.strictObject({
  type: z.string(),
  id: z.string(),
  /** Null if the id is the name, or if the name is unknown. */
  name: z.string().nullable(),
  note: z.string().nullable(),
});
export type DisclosedActor = z.infer<typeof actor>;

const application = z.strictObject({ id: uuid, name: z.string().nullable() });

const appointment = z.strictObject({
  id: uuid,
  scheduledAt: instant,
  durationMinutes: z.int(),
  status: z.string(),
  reason: z.string().nullable(),
  notes: z.string().nullable(),
  animalId: uuid.nullable(),
  branchId: uuid,
  /** Application that requested the appointment, and received it as the response; null for others. */
  application: application.nullable(),
});

const queueTicket = z.strictObject({
  id: uuid,
  number: z.string(),
  date: z.string(),
  status: z.string(),
  notes: z.string().nullable(),
  appointmentId: uuid.nullable(),
  animalId: uuid.nullable(),
});

const change = z.strictObject({
  eventId: uuid,
  /** Time of the event, as reported by the program that wrote the event. */
  occurredAt: instant,
  storedAt: instant,
  type: z.string(),
  stream: z.string(),
  revision: z.int(),
  actor,
  data: freeForm,
});

const access = z.strictObject({
  id: uuid,
  at: instant,
  actor,
  action: auditAction,
  /**
   * `individual`: the query named a record of the person, or the response contained one. `export`: the exported file
   * contains events of the person. `possible`: a query about the clinic or an application, whose response can have
   * contained events of the person.
   */
  extent: z.enum(["individual", "export", "possible"]),
  query: freeForm,
});
export type DisclosedAccess = z.infer<typeof access>;

const delivery = z.strictObject({
  id: uuid,
  createdAt: instant,
  application,
  /** Scheme, host and port of the endpoint's URL; null if the endpoint is unknown. */
  endpointOrigin: z.string().nullable(),
  type: z.string(),
  appointmentId: uuid,
  status: z.string(),
  /** Last attempt; null if there was none. */
  lastAttempt: z.strictObject({ startedAt: instant, statusCode: z.int().nullable() }).nullable(),
});
export type DisclosedDelivery = z.infer<typeof delivery>;

/** Schema of a disclosure: everything held about a customer, who saw it, and who received it. */
export const disclosureSchema = z.strictObject({
  format: z.literal("clinic-service/disclosure/1"),
  /** Id of the recorded access, which records the disclosure itself. */
  id: uuid,
  createdAt: instant,
  createdBy: actor,
  clinic: z.strictObject({ id: uuid, name: z.string(), timezone: z.string() }),
  customer: z.strictObject({
    id: uuid,
    fullName: z.string(),
    phone: z.string().nullable(),
    email: z.string().nullable(),
    city: z.string().nullable(),
    erasedCategories: z.array(personalDataCategorySchema),
  }),
  animals: z.array(
    z.strictObject({
      id: uuid,
      name: z.string(),
      species: z.string(),
      breed: z.string().nullable(),
      sex: z.string().nullable(),
      birthDate: z.string().nullable(),
      microchip: z.string().nullable(),
      weightKg: z.number().nullable(),
    }),
  ),
  /** Valid consents to share an animal. `changes` also contains earlier ones and link codes. */
  consents: z.array(z.strictObject({ animalId: uuid, application, covers: consentCoverage, grantedAt: instant })),
  appointments: z.array(appointment),
  queueTickets: z.array(queueTicket),
  changes: z.array(change),
  accesses: z.array(access),
  deliveries: z.array(delivery),
  limits: z.array(z.string()),
});
export type Disclosure = z.infer<typeof disclosureSchema>;

/** Lists the fields of a record in words, for example `clinic id, scheduled at`. */
const listFields = ({ shape }: z.ZodObject): string =>
  Object.keys(shape)
    .map((name) => name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`))
    .join(", ");

/** Limits of a disclosure. The fields that partners can read come from the records of the partner API. */
export const DISCLOSURE_LIMITS = [
  "Reads by users of the clinic's portal are not recorded individually. The clinic's staff can see customers, animals, appointments and the queue, as far as their permissions allow.",
  `Reads by partner applications are not recorded individually. An application that is installed at the clinic can read of an appointment: ${listFields(partnerAppointment)}. Of an animal that a link code shares with it, it can read: ${listFields(animalLinkRecord.shape.animal)}.`,
  `A webhook contains of an appointment: ${listFields(appointmentBody.shape.data.shape.appointment)}, and how they changed. Finished deliveries are deleted after 30 days, so earlier deliveries are not listed.`,
  "A possible access is a query about the whole clinic or an application. The log does not record whether its response contained data of this person.",
  "Backups of the event log and of the database contain the same data until they are deleted.",
];
