import { option } from "../../../shared/command-line/option.ts";
import { holdStreams, queueTicketStreams } from "../../../shared/domain/events/appointment.ts";
import {
  callTicket,
  cancelTicket,
  completeTicket,
  issueTicket,
  markTicketNoShow,
  placeHold,
  releaseHold,
} from "../../operations/front-desk-operations.ts";
import { type DomainCommand, defineDomainCommand } from "../domain-command.ts";
import { clinic } from "../options.ts";

const holdFields = holdStreams.events.HoldPlaced.shape;
const ticketFields = queueTicketStreams.events.QueueTicketIssued.shape;
const EXAMPLE_CLINIC_ARGUMENT = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const EXAMPLE_BRANCH_ARGUMENT = "--branch 7c2f9d14-0d7e-4c07-9a6f-1b8e4f5a0005";
const EXAMPLE_ID_ARGUMENT = "--id 6e8a4c7b-2c59-49c4-b0c9-7a6d5e4f0006";

const branch = option.id("the branch");

function defineTicketTransition(verb: string, summary: string, operation: typeof callTicket): DomainCommand {
  return defineDomainCommand(queueTicketStreams, {
    name: `ticket ${verb}`,
    summary,
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT}`,
    options: { id: option.id("the ticket"), clinic },
    run: (log, { id: ticketId, clinic: clinicId }, context) => operation(log, { ticketId, clinicId }, context),
  });
}

export const frontDeskCommands: DomainCommand[] = [
  defineDomainCommand(holdStreams, {
    name: "hold place",
    summary: "Reserves a time span before an appointment exists.",
    example: `${EXAMPLE_CLINIC_ARGUMENT} ${EXAMPLE_BRANCH_ARGUMENT} --starts-at 2027-03-01T09:00:00+01:00 --ends-at 2027-03-01T09:30:00+01:00 --expires-at 2027-02-28T18:00:00+01:00`,
    options: {
      id: option.newId("the new hold's id"),
      clinic,
      branch,
      resource: option.nullableText(holdFields.resourceId, "the resource; default: any resource of the branch", "uuid"),
      startsAt: option.text(holdFields.startsAt, "start of the hold", "date-time"),
      endsAt: option.text(holdFields.endsAt, "end of the hold", "date-time"),
      expiresAt: option.text(holdFields.expiresAt, "time at which the hold expires", "date-time"),
    },
    run: (log, { id: holdId, clinic: clinicId, branch: branchId, resource: resourceId, ...times }, context) =>
      placeHold(log, { holdId, clinicId, branchId, resourceId, ...times }, context),
  }),
  defineDomainCommand(holdStreams, {
    name: "hold release",
    summary: "Releases a hold.",
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT}`,
    options: { id: option.id("the hold"), clinic },
    run: (log, { id: holdId, clinic: clinicId }, context) => releaseHold(log, { holdId, clinicId }, context),
  }),
  defineDomainCommand(queueTicketStreams, {
    name: "ticket issue",
    summary: "Issues a ticket for the front-desk queue.",
    example: `${EXAMPLE_CLINIC_ARGUMENT} ${EXAMPLE_BRANCH_ARGUMENT} --number A017 --date 2027-03-01`,
    options: {
      id: option.newId("the new ticket's id"),
      clinic,
      branch,
      appointment: option.nullableText(ticketFields.appointmentId, "the appointment", "uuid"),
      visit: option.nullableText(ticketFields.visitId, "the visit", "uuid"),
      animal: option.nullableText(ticketFields.animalId, "the animal", "uuid"),
      number: option.text(ticketFields.ticketNumber, "ticket number that the front desk calls"),
      date: option.text(ticketFields.queueDate, "date of the queue, in the clinic's time zone", "YYYY-MM-DD"),
      arrivalType: option.text(
        ticketFields.arrivalType.default("appointment"),
        "type of arrival, such as walk_in; default: appointment",
      ),
      priority: option.text(
        ticketFields.priority.default("normal"),
        "priority of the ticket, such as urgent; default: normal",
      ),
      estimatedWaitMinutes: option.number(ticketFields.estimatedWaitMinutes.default(null), "estimated wait in minutes"),
      notes: option.nullableText(ticketFields.notes, "notes"),
    },
    run: (log, values, context) => {
      const { id: ticketId, clinic: clinicId, branch: branchId, number: ticketNumber, date, ...details } = values;
      const { appointment: appointmentId, visit: visitId, animal: animalId, ...otherDetails } = details;
      const ids = { ticketId, clinicId, branchId, appointmentId, visitId, animalId };
      return issueTicket(log, { ...ids, ticketNumber, queueDate: date, ...otherDetails }, context);
    },
  }),
  defineTicketTransition("call", "Calls a waiting ticket.", callTicket),
  defineTicketTransition("complete", "Completes a called ticket.", completeTicket),
  defineTicketTransition("cancel", "Cancels a ticket.", cancelTicket),
  defineTicketTransition("no-show", "Records that nobody came when the ticket was called.", markTicketNoShow),
];
