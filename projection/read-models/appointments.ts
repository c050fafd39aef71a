import { getEnd, statusAfterEvent } from "../../shared/domain/appointment/appointment.ts";
import { appointmentStreams } from "../../shared/domain/events/appointment.ts";
import { toStreamName } from "../../shared/domain/events/category.ts";
import type { PartnerResource } from "../../shared/partner-api/records.ts";
import {
  createUpdateHandler,
  defineJsonColumn,
  defineReadModel,
  eraseColumns,
  getNeutralColumns,
  pickColumns,
  type RecordedEventOf,
  type RowCause,
  toColumns,
} from "../engine/read-model.ts";
import { resources } from "./resources.ts";

type AppointmentEvent = RecordedEventOf<keyof typeof appointmentStreams.events>;

type RowWithRevision = { revision: number };

/** Resource that was allocated to the appointment, as the portal shows it. */
interface AssignedResource {
  id: string;
  /** Null if the resource does not exist. */
  type: string | null;
  name: string | null;
  allocationStart: string;
  allocationEnd: string;
  status: "allocated" | "released";
  assignmentId: string;
}

function getCauseColumns({ id, position, occurredAt }: RowCause) {
  return { updated_at: occurredAt, position: String(position), event_id: id };
}

function getCommonColumns(event: AppointmentEvent, row?: RowWithRevision) {
  const { id, position, metadata } = event;
  return {
    revision: getNextRevision(event, row),
    ...getCauseColumns({ id, position, occurredAt: metadata.occurredAt }),
  };
}

/**
 * Returns the appointment's revision after the event. Fixture events are in the stream of the sandbox, so they are
 * counted instead. All resets on one day therefore produce the same rows.
 */
function getNextRevision({ stream, revision, data }: AppointmentEvent, row?: RowWithRevision): number {
  if (stream === toStreamName(appointmentStreams, data.appointmentId)) return Number(revision);
  return row ? row.revision + 1 : 0;
}

function changeStatus<R extends RowWithRevision>(
  row: R | undefined,
  event: RecordedEventOf<keyof typeof statusAfterEvent>,
): R | undefined {
  return row && { ...row, status: statusAfterEvent[event.type], ...getCommonColumns(event, row) };
}

function compareAllocations(a: AssignedResource, b: AssignedResource): number {
  const difference = Date.parse(a.allocationStart) - Date.parse(b.allocationStart);
  return difference || (a.assignmentId < b.assignmentId ? -1 : 1);
}

type ResourceNames = { resource_type: string; name: string } | undefined;

function toAssignedResource(
  { id, allocationStart, allocationEnd, assignmentId }: Omit<AssignedResource, "type" | "name" | "status">,
  resource: ResourceNames,
): AssignedResource {
  const { resource_type: type, name } = resource ?? { resource_type: null, name: null };
  return { id, type, name, allocationStart, allocationEnd, status: "allocated", assignmentId };
}

/** Returns the resource that the request booked, or an empty list. */
function listRequestedResources(
  { data: { place, ...appointment } }: RecordedEventOf<"AppointmentRequested">,
  resource: ResourceNames,
): AssignedResource[] {
  if (!place) return [];
  const times = { allocationStart: appointment.scheduledAt, allocationEnd: getEnd(appointment) };
  return [toAssignedResource({ id: place.resourceId, assignmentId: place.assignmentId, ...times }, resource)];
}

function allocateResource<R extends RowWithRevision & { resources: AssignedResource[] }>(
  row: R,
  event: RecordedEventOf<"ResourceAllocated">,
  resource: ResourceNames,
): R {
  const { assignmentId, resourceId: id, allocationStart, allocationEnd } = event.data;
  const allocation = toAssignedResource({ assignmentId, id, allocationStart, allocationEnd }, resource);
  const others = row.resources.filter((other) => other.assignmentId !== assignmentId);
  return { ...row, resources: [...others, allocation].sort(compareAllocations), ...getCommonColumns(event, row) };
}

/** Lists the resources that an appointment currently has, as partners see them. */
export function listPartnerResources(resources: readonly AssignedResource[]): PartnerResource[] {
  return resources
    .filter(({ status }) => status === "allocated")
    .map(({ id, allocationStart, allocationEnd }) => ({ id, allocationStart, allocationEnd }));
}

/** Adds the former start time if the start changed. A change of only the duration does not move an appointment. */
function listFormerTimes(row: { scheduled_at: string; former_times: string[] }, newTime: string): string[] {
  return row.scheduled_at === newTime ? row.former_times : [...row.former_times, row.scheduled_at];
}

const personalColumns = { notes: getNeutralColumns("AppointmentRequested", ["reason", "notes"]) };

export const appointments = defineReadModel({
  table: "appointment",
  columns: {
    appointment_id: "uuid",
    clinic_id: "uuid",
    branch_id: "uuid",
    animal_id: "uuid",
    customer_id: "uuid",
    application_id: "uuid",
    scheduled_at: "timestamptz",
    /** Earlier start times of a moved appointment, oldest first. */
    former_times: defineJsonColumn<string[]>("json"),
    duration_minutes: "numeric",
    status: "text",
    reason: "text",
    notes: "text",
    revision: "numeric",
    created_at: "timestamptz",
    updated_at: "timestamptz",
    /**
     * Log position and id of the last event, or of the last erasure of the customer's notes. A sandbox's fixture
     * appointments have position and id of the reset.
     */
    position: "bigint",
    event_id: "uuid",
    /** In the order of API responses. Types and names stay valid, because a resource cannot change them. */
    resources: defineJsonColumn<AssignedResource[]>("json"),
  },
  nullable: ["animal_id", "customer_id", "application_id", "reason", "notes"],
  primaryKey: ["appointment_id"],
  auditColumns: [
    "appointment_id",
    "clinic_id",
    "branch_id",
    "animal_id",
    "customer_id",
    "scheduled_at",
    "former_times",
    "duration_minutes",
    "status",
  ],
  indexes: [
    "clinic_id, branch_id, scheduled_at, appointment_id",
    "clinic_id, scheduled_at, appointment_id",
    // Lists changes in the order of the log, and finds the first change after a time.
    "clinic_id, position, appointment_id",
    "clinic_id, updated_at, position",
    // Finds the appointments that were moved away from a day.
    { columns: "clinic_id", where: "json_array_length(former_times) > 0" },
    // Finds the appointments of an erased customer, and the last visit of a customer.
    { columns: "customer_id, scheduled_at", isUsedByEngine: true },
    // Finds appointments without a customer whose retention period has ended, in pages.
    { columns: "clinic_id, appointment_id", where: "customer_id IS NULL" },
  ],
  personalColumns,
  recordErasure: (_, erasure) => getCauseColumns(erasure),
  customerRowsSql: (schema) =>
    `SELECT appointment_id, customer_id FROM ${schema}.appointment WHERE customer_id = ANY ($1::uuid[])`,
  renderedColumns: {
    portal_json: (row) => ({
      id: row.appointment_id,
      scheduledAt: row.scheduled_at,
      durationMinutes: row.duration_minutes,
      reason: row.reason,
      status: row.status,
      notes: row.notes,
      createdAt: row.created_at,
      updatedAt: row.updated_at,
    }),
    resources_json: (row) => ({ resources: row.resources.map(({ assignmentId, ...resource }) => resource) }),
    partner_json: (row) => ({ resources: listPartnerResources(row.resources) }),
  },
  exampleValues: {
    resources: [
      {
        id: "00000000-0000-4000-8000-000000000000",
        type: "room",
        name: "Room",
        allocationStart: "2000-01-01T00:00:00.000Z",
        allocationEnd: "2000-01-01T00:30:00.000Z",
        status: "allocated",
        assignmentId: "unused",
      },
    ],
  },
  sandboxCondition: () => "clinic_id = $1::uuid",
  references: [resources],
  key: (event) => [event.data.appointmentId],
  on: {
    AppointmentRequested: (_, event, findRows) => ({
      ...toColumns(event.data),
      status: event.data.isConfirmed ? "confirmed" : "requested",
      former_times: [],
      resources: listRequestedResources(event, findRows(resources).after),
      created_at: event.metadata.occurredAt,
      ...getCommonColumns(event),
    }),
    AppointmentImported: (_, event) => ({
      ...toColumns(event.data),
      application_id: null,
      former_times: [],
      resources: [],
      created_at: event.data.requestedAt ?? event.metadata.occurredAt,
      ...getCommonColumns(event),
    }),
    AppointmentConfirmed: changeStatus,
    AppointmentCheckedIn: changeStatus,
    AppointmentPutInWaiting: changeStatus,
    ConsultationStarted: changeStatus,
    AppointmentCompleted: changeStatus,
    AppointmentCancelled: changeStatus,
    AppointmentMarkedNoShow: changeStatus,
    AppointmentRescheduled: createUpdateHandler((event, row) => ({
      scheduled_at: event.data.scheduledAt,
      duration_minutes: event.data.durationMinutes,
      former_times: listFormerTimes(row, event.data.scheduledAt),
      ...getCommonColumns(event, row),
    })),
    ResourceAllocated: (row, event, findRows) => row && allocateResource(row, event, findRows(resources).after),
    ResourceReleased: createUpdateHandler((event, row) => ({
      resources: row.resources.map((resource) =>
        resource.assignmentId === event.data.assignmentId ? { ...resource, status: "released" } : resource,
      ),
      ...getCommonColumns(event, row),
    })),
    AppointmentDataErased: createUpdateHandler((event, row) => ({
      ...eraseColumns(row, event.data.categories, personalColumns),
      ...getCommonColumns(event, row),
    })),
  },
});

export const assignments = defineReadModel({
  table: "assignment",
  columns: {
    assignment_id: "uuid",
    clinic_id: "uuid",
    appointment_id: "uuid",
    resource_id: "uuid",
    allocation_start: "timestamptz",
    allocation_end: "timestamptz",
    status: "text",
  },
  nullable: [],
  primaryKey: ["assignment_id"],
  commandColumns: [
    ...(["clinic_id", "appointment_id", "resource_id", "allocation_start", "allocation_end", "status"] as const),
  ],
  indexes: ["appointment_id", "resource_id, allocation_start"],
  renderedColumns: {
    availability_json: (row) => ({
      id: row.assignment_id,
      ...pickColumns(row, "appointment_id", "resource_id", "allocation_start", "allocation_end", "status"),
    }),
  },
  sandboxCondition: () => "clinic_id = $1::uuid",
  references: [appointments],
  key: (event) => {
    const assignmentId =
      event.type === "AppointmentRequested" ? event.data.place?.assignmentId : event.data.assignmentId;
    return assignmentId === undefined ? undefined : [assignmentId];
  },
  on: {
    AppointmentRequested: (row, { data: { place, ...appointment } }) =>
      place
        ? {
            ...{ assignment_id: place.assignmentId, resource_id: place.resourceId, status: "allocated" },
            ...{ clinic_id: appointment.clinicId, appointment_id: appointment.appointmentId },
            ...{ allocation_start: appointment.scheduledAt, allocation_end: getEnd(appointment) },
          }
        : row,
    ResourceAllocated: (_, { data }, findRows) => {
      const appointment = findRows(appointments).after;
      return appointment && { ...toColumns(data), clinic_id: appointment.clinic_id, status: "allocated" };
    },
    ResourceReleased: createUpdateHandler(() => ({ status: "released" })),
  },
});
