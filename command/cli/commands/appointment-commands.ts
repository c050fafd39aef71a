import { z } from "zod";
import { appointmentCategory } from "../../../shared/domain/events/appointment.ts";
import { uuid } from "../../../shared/domain/events/fields.ts";
import {
  allocateResource,
  cancelAppointment,
  checkInAppointment,
  completeAppointment,
  confirmAppointment,
  importAppointment,
  markNoShow,
  putAppointmentInWaiting,
  releaseResource,
  requestAppointment,
  rescheduleAppointment,
  startConsultation,
} from "../../operations/appointment-operations.ts";
import { type Command, defineCommand } from "../framework/command.ts";
import { id, list, newId, number, omitUndefined, text, textOrNull } from "../framework/option.ts";

const requested = appointmentCategory.events.AppointmentRequested.shape;
const imported = appointmentCategory.events.AppointmentImported.shape;
const { AppointmentCancelled, ResourceAllocated } = appointmentCategory.events;
const CLINIC = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const ID = "--id 2d9b7e31-61a0-4c88-9d35-3c1f8a7e0007";

const clinic = id("the clinic");
const appointment = { id: id("the appointment"), clinic };

function move(verb: string, summary: string, operation: typeof confirmAppointment): Command {
  return defineCommand({
    name: `appointment ${verb}`,
    summary,
    example: `${ID} ${CLINIC}`,
    options: appointment,
    category: appointmentCategory,
    changes: (values) => values.id,
    run: (log, { id: appointmentId, clinic: clinicId }, context) =>
      operation(log, { appointmentId, clinicId }, context),
  });
}

export const appointmentCommands: Command[] = [
  defineCommand({
    name: "appointment request",
    summary: "Requests an appointment at the front desk.",
    example: `${CLINIC} --branch 7c2f9d14-0d7e-4c07-9a6f-1b8e4f5a0005 --animal 9c1d6c1e-5b60-4a7b-8a38-6f2f6a1e0003 --scheduled-at 2027-03-01T09:00:00+01:00`,
    options: {
      id: newId("the new appointment's id"),
      clinic,
      branch: id("the branch"),
      animal: textOrNull(requested.animalId.unwrap(), "the animal", "uuid"),
      scheduledAt: text(requested.scheduledAt, "start time", "date-time"),
      durationMinutes: number(requested.durationMinutes.default(30), "duration in minutes; default: 30"),
      reason: textOrNull(requested.reason.unwrap(), "reason for the appointment"),
      notes: textOrNull(requested.notes.unwrap(), "notes"),
    },
    category: appointmentCategory,
    changes: (values) => values.id,
    run: (
      log,
      { id: appointmentId, clinic: clinicId, branch: branchId, animal: animalId, ...rest },
      context,
    ) => requestAppointment(log, { appointmentId, clinicId, branchId, animalId, ...rest }, context),
  }),
  defineCommand({
    name: "appointment import",
    summary: "Imports an appointment from another system with its status. Partners are not notified.",
    example: `${CLINIC} --branch 7c2f9d14-0d7e-4c07-9a6f-1b8e4f5a0005 --animal 9c1d6c1e-5b60-4a7b-8a38-6f2f6a1e0003 --scheduled-at 2024-03-01T09:00:00+01:00 --status completed`,
    options: {
      id: newId("the appointment's id"),
      clinic,
      branch: id("the branch"),
      animal: textOrNull(imported.animalId.unwrap(), "the animal", "uuid"),
      customer: textOrNull(
        imported.customerId.unwrap(),
        "the customer; default: the owner of the animal",
        "uuid",
      ),
      scheduledAt: text(imported.scheduledAt, "start time, in the past or future", "date-time"),
      durationMinutes: number(imported.durationMinutes.default(30), "duration in minutes; default: 30"),
      reason: textOrNull(imported.reason.unwrap(), "reason for the appointment"),
      notes: textOrNull(imported.notes.unwrap(), "notes"),
      status: text(
        imported.status,
        "past appointments: completed, cancelled or no_show; future appointments: requested, confirmed or cancelled",
        "status",
      ),
      requestedAt: textOrNull(imported.requestedAt.unwrap(), "time of the request, if known", "date-time"),
      statusAt: textOrNull(
        imported.statusAt.unwrap(),
        "time at which it reached its status; default: derived from the start time",
        "date-time",
      ),
      resources: list(
        z.array(uuid).max(20).default([]),
        "resources of the branch that were allocated, separated by commas",
        "uuids",
      ),
    },
    category: appointmentCategory,
    changes: (values) => values.id,
    run: (log, values, context) => {
      const { id: appointmentId, clinic: clinicId, branch: branchId, ...rest } = values;
      const { animal: animalId, customer: customerId, resources: resourceIds, ...more } = rest;
      const ids = { appointmentId, clinicId, branchId, animalId, customerId, resourceIds };
      return importAppointment(log, { ...ids, ...more }, context);
    },
  }),
  move("confirm", "Confirms a requested appointment.", confirmAppointment),
  move("check-in", "Records that the animal has arrived.", checkInAppointment),
  move("wait", "Moves a checked-in appointment to the waiting room.", putAppointmentInWaiting),
  move("start", "Starts the consultation.", startConsultation),
  move("complete", "Completes the consultation.", completeAppointment),
  move("no-show", "Records, after the start time, that nobody came.", markNoShow),
  defineCommand({
    name: "appointment cancel",
    summary: "Cancels an appointment before the consultation starts.",
    example: `${ID} ${CLINIC} --reason 'Owner called off'`,
    options: { ...appointment, reason: textOrNull(AppointmentCancelled.shape.reason.unwrap(), "reason") },
    category: appointmentCategory,
    changes: (values) => values.id,
    run: (log, { id: appointmentId, clinic: clinicId, reason }, context) =>
      cancelAppointment(log, { appointmentId, clinicId, reason }, context),
  }),
  defineCommand({
    name: "appointment reschedule",
    summary: "Moves an appointment to another time, before check-in.",
    example: `${ID} ${CLINIC} --scheduled-at 2027-03-02T10:00:00+01:00`,
    options: {
      ...appointment,
      scheduledAt: text(requested.scheduledAt, "start time", "date-time"),
      durationMinutes: number(
        requested.durationMinutes.optional(),
        "duration in minutes; default: unchanged",
      ),
    },
    category: appointmentCategory,
    changes: (values) => values.id,
    run: (log, { id: appointmentId, clinic: clinicId, scheduledAt, durationMinutes }, context) => {
      const to = { appointmentId, clinicId, scheduledAt, ...omitUndefined({ durationMinutes }) };
      return rescheduleAppointment(log, to, context);
    },
  }),
  defineCommand({
    name: "appointment allocate",
    summary: "Allocates a resource of the branch to an appointment.",
    example: `${ID} ${CLINIC} --resource 3a7f2a10-94b1-4f53-8f3b-5d2f6c8b0004 --from 2027-03-01T09:00:00+01:00 --until 2027-03-01T09:30:00+01:00`,
    options: {
      ...appointment,
      assignment: newId("the new assignment's id"),
      resource: id("the resource"),
      from: text(ResourceAllocated.shape.allocationStart, "start of the allocation", "date-time"),
      until: text(ResourceAllocated.shape.allocationEnd, "end of the allocation", "date-time"),
    },
    category: appointmentCategory,
    changes: (values) => values.id,
    run: (log, values, context) => {
      const { id: appointmentId, clinic: clinicId, assignment: assignmentId, resource: resourceId } = values;
      const time = { allocationStart: values.from, allocationEnd: values.until };
      return allocateResource(log, { appointmentId, clinicId, assignmentId, resourceId, ...time }, context);
    },
  }),
  defineCommand({
    name: "appointment release",
    summary: "Releases a resource that is allocated to an appointment.",
    example: `${ID} ${CLINIC} --assignment 8b1f0d2c-7f4e-4b0a-a5c7-2e9d6f3a0008`,
    options: { ...appointment, assignment: id("the assignment") },
    category: appointmentCategory,
    changes: (values) => values.id,
    run: (log, { id: appointmentId, clinic: clinicId, assignment: assignmentId }, context) =>
      releaseResource(log, { appointmentId, clinicId, assignmentId }, context),
  }),
];
