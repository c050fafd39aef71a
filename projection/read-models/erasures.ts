import { addErasure } from "../../shared/domain/personal-data/erasure.ts";
import {
  type PersonalDataCategory,
  type PersonType,
  personalDataCategories,
} from "../../shared/domain/personal-data/person.ts";
import { defineJsonColumn, defineReadModel, type RecordedEventOf, type RowOf } from "../engine/read-model.ts";

type ErasureEvent = RecordedEventOf<keyof typeof personTypeByEvent>;

const personTypeByEvent = {
  CustomerDataErased: "customer",
  StaffDataErased: "staff",
  PortalUserDataErased: "portalUser",
  AuditorDataErased: "auditor",
  AppointmentDataErased: "appointment",
  QueueTicketDataErased: "queueTicket",
} as const satisfies Record<string, PersonType>;

function getPersonId({ data }: ErasureEvent): string {
  if ("customerId" in data) return data.customerId;
  if ("staffId" in data) return data.staffId;
  if ("userId" in data) return data.userId;
  if ("auditorId" in data) return data.auditorId;
  return "appointmentId" in data ? data.appointmentId : data.ticketId;
}

const columns = {
  person_type: "text",
  person_id: "uuid",
  contact_erased_at: "timestamptz",
  animal_erased_at: "timestamptz",
  notes_erased_at: "timestamptz",
  /** Categories of which no new data can be recorded after the erasure. */
  final_categories: defineJsonColumn<PersonalDataCategory[]>(),
} as const;

const nullable = ["contact_erased_at", "animal_erased_at", "notes_erased_at"] as const;

type ErasureRow = RowOf<typeof columns, (typeof nullable)[number]>;

function recordErasure(row: ErasureRow | undefined, event: ErasureEvent): ErasureRow {
  const erasedAt = (category: PersonalDataCategory) =>
    event.data.categories.includes(category) ? event.metadata.occurredAt : (row?.[`${category}_erased_at`] ?? null);
  return {
    person_type: personTypeByEvent[event.type],
    person_id: getPersonId(event),
    contact_erased_at: erasedAt("contact"),
    animal_erased_at: erasedAt("animal"),
    notes_erased_at: erasedAt("notes"),
    final_categories: findFinalCategories(row, event),
  };
}

/** Returns the categories that get no new data. An erased appointment or ticket never gets new data. */
function findFinalCategories(row: ErasureRow | undefined, { type, data }: ErasureEvent): PersonalDataCategory[] {
  if (type === "AppointmentDataErased" || type === "QueueTicketDataErased") return data.categories;
  const erasedCategories = personalDataCategories.filter((category) => row?.[`${category}_erased_at`]);
  return addErasure({ erasedCategories, finalCategories: row?.final_categories ?? [] }, data).finalCategories;
}

/**
 * Latest erasure of each person's data, by category. The retention task uses it to find persons whose data is not
 * erased yet, and data keys that an erasure has not destroyed.
 */
export const erasures = defineReadModel({
  table: "erasure",
  columns,
  nullable,
  primaryKey: ["person_type", "person_id"],
  commandColumns: ["person_type", "person_id", "contact_erased_at"],
  indexes: [],
  key: (event: ErasureEvent) => [personTypeByEvent[event.type], getPersonId(event)],
  on: {
    CustomerDataErased: recordErasure,
    StaffDataErased: recordErasure,
    PortalUserDataErased: recordErasure,
    AuditorDataErased: recordErasure,
    AppointmentDataErased: recordErasure,
    QueueTicketDataErased: recordErasure,
  },
});
