import { z } from "zod";
import { option } from "../../../shared/command-line/option.ts";
import { appointmentStreams, detailDefaults } from "../../../shared/domain/events/appointment.ts";
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
import { type DomainCommand, defineDomainCommand } from "../domain-command.ts";
import { clinic, omitUndefined } from "../options.ts";

const requestFields = appointmentStreams.events.AppointmentRequested.shape;
const importFields = appointmentStreams.events.AppointmentImported.shape;
const { AppointmentCancelled, AppointmentRescheduled, ResourceAllocated } = appointmentStreams.events;
const EXAMPLE_CLINIC_ARGUMENT = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const EXAMPLE_ID_ARGUMENT = "--id 2d9b7e31-61a0-4c88-9d35-3c1f8a7e0007";

const appointmentOptions = { id: option.id("the appointment"), clinic };

const detailOptions = {
  durationMinutes: option.number(
    requestFields.durationMinutes.default(detailDefaults.durationMinutes),
    "duration in minutes; default: 30",
  ),
  reason: option.nullableText(requestFields.reason, "reason for the appointment"),
  notes: option.nullableText(requestFields.notes, "notes"),
};

function defineTransition(verb: string, summary: string, operation: typeof confirmAppointment): DomainCommand {
  return defineDomainCommand(appointmentStreams, {
    name: `appointment ${verb}`,
    summary,
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT}`,
    options: appointmentOptions,
    run: (log, { id: appointmentId, clinic: clinicId }, context) =>
      operation(log, { appointmentId, clinicId }, context),
  });
}

export const appointmentCommands: DomainCommand[] = [
  defineDomainCommand(appointmentStreams, {
    name: "appointment request",
    summary: "Requests an appointment at the front desk.",
    example: `${EXAMPLE_CLINIC_ARGUMENT} --branch 7c2f9d14-0d7e-4c07-9a6f-1b8e4f5a0005 --animal 9c1d6c1e-5b60-4a7b-8a38-6f2f6a1e0003 --scheduled-at 2027-03-01T09:00:00+01:00`,
    options: {
      id: option.newId("the new appointment's id"),
      clinic,
      branch: option.id("the branch"),
      animal: option.nullableText(requestFields.animalId, "the animal", "uuid"),
      scheduledAt: option.text(requestFields.scheduledAt, "start time", "date-time"),
      ...detailOptions,
    },
    run: (log, { id: appointmentId, clinic: clinicId, branch: branchId, animal: animalId, ...details }, context) =>
      requestAppointment(log, { appointmentId, clinicId, branchId, animalId, ...details }, context),
  }),
  defineDomainCommand(appointmentStreams, {
    name: "appointment import",
    summary: "Imports an appointment from another system with its status. Partners are not notified.",
    example: `${EXAMPLE_CLINIC_ARGUMENT} --branch 7c2f9d14-0d7e-4c07-9a6f-1b8e4f5a0005 --animal 9c1d6c1e-5b60-4a7b-8a38-6f2f6a1e0003 --scheduled-at 2024-03-01T09:00:00+01:00 --status completed`,
    options: {
      id: option.newId("the appointment's id"),
      clinic,
      branch: option.id("the branch"),
      animal: option.nullableText(importFields.animalId, "the animal", "uuid"),
      customer: option.nullableText(importFields.customerId, "the customer; default: the owner of the animal", "uuid"),
      scheduledAt: option.text(importFields.scheduledAt, "start time, in the past or future", "date-time"),
      ...detailOptions,
      status: option.text(
        importFields.status,
        "past appointments: completed, cancelled or no_show; future appointments: requested, confirmed or cancelled",
        "status",
      ),
      requestedAt: option.nullableText(
        importFields.requestedAt,
        "time at which the appointment was requested, if known",
        "date-time",
      ),
      statusAt: option.nullableText(
        importFields.statusAt,
        "time at which the appointment reached its status; default: derived from the start time",
        "date-time",
      ),
      resources: option.list(
        z.array(uuid).max(20).default([]),
        "allocated resources of the branch, separated by commas",
        "uuids",
      ),
    },
    run: (log, values, context) => {
      const { id: appointmentId, clinic: clinicId, branch: branchId, ...details } = values;
      const { animal: animalId, customer: customerId, resources: resourceIds, ...otherDetails } = details;
      const ids = { appointmentId, clinicId, branchId, animalId, customerId, resourceIds };
      return importAppointment(log, { ...ids, ...otherDetails }, context);
    },
  }),
  defineTransition("confirm", "Confirms a requested appointment.", confirmAppointment),
  defineTransition("check-in", "Records that the animal of an appointment has arrived.", checkInAppointment),
  defineTransition("wait", "Moves a checked-in appointment to the waiting room.", putAppointmentInWaiting),
  defineTransition("start", "Starts the consultation of an appointment.", startConsultation),
  defineTransition("complete", "Completes the consultation of an appointment.", completeAppointment),
  defineTransition(
    "no-show",
    "Records that nobody came to an appointment. The start time must have passed.",
    markNoShow,
  ),
  defineDomainCommand(appointmentStreams, {
    name: "appointment cancel",
    summary: "Cancels an appointment whose consultation has not started.",
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT} --reason 'Cancelled by the owner'`,
    options: {
      ...appointmentOptions,
      reason: option.nullableText(AppointmentCancelled.shape.reason, "reason"),
    },
    run: (log, { id: appointmentId, clinic: clinicId, reason }, context) =>
      cancelAppointment(log, { appointmentId, clinicId, reason }, context),
  }),
  defineDomainCommand(appointmentStreams, {
    name: "appointment reschedule",
    summary: "Moves an appointment to another time. The animal must not be checked in yet.",
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT} --scheduled-at 2027-03-02T10:00:00+01:00 --reason 'The veterinarian is ill'`,
    options: {
      ...appointmentOptions,
      scheduledAt: option.text(requestFields.scheduledAt, "start time", "date-time"),
      durationMinutes: option.number(
        requestFields.durationMinutes.optional(),
        "duration in minutes; default: unchanged",
      ),
      reason: option.nullableText(AppointmentRescheduled.shape.reason, "reason"),
    },
    run: (log, { id: appointmentId, clinic: clinicId, scheduledAt, durationMinutes, reason }, context) => {
      const change = { appointmentId, clinicId, scheduledAt, reason, ...omitUndefined({ durationMinutes }) };
      return rescheduleAppointment(log, change, context);
    },
  }),
  defineDomainCommand(appointmentStreams, {
    name: "appointment allocate",
    summary: "Allocates a resource of the branch to an appointment.",
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT} --resource 3a7f2a10-94b1-4f53-8f3b-5d2f6c8b0004 --from 2027-03-01T09:00:00+01:00 --until 2027-03-01T09:30:00+01:00`,
    options: {
      ...appointmentOptions,
      assignment: option.newId("the new assignment's id"),
      resource: option.id("the resource"),
      from: option.text(ResourceAllocated.shape.allocationStart, "start of the allocation", "date-time"),
      until: option.text(ResourceAllocated.shape.allocationEnd, "end of the allocation", "date-time"),
    },
    run: (log, values, context) => {
      const { id: appointmentId, clinic: clinicId, assignment: assignmentId, resource: resourceId } = values;
      const allocationTimes = { allocationStart: values.from, allocationEnd: values.until };
      return allocateResource(log, { appointmentId, clinicId, assignmentId, resourceId, ...allocationTimes }, context);
    },
  }),
  defineDomainCommand(appointmentStreams, {
    name: "appointment release",
    summary: "Releases a resource that is allocated to an appointment.",
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT} --assignment 8b1f0d2c-7f4e-4b0a-a5c7-2e9d6f3a0008`,
    options: { ...appointmentOptions, assignment: option.id("the assignment") },
    run: (log, { id: appointmentId, clinic: clinicId, assignment: assignmentId }, context) =>
      releaseResource(log, { appointmentId, clinicId, assignmentId }, context),
  }),
];
