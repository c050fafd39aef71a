import { holdCategory, queueTicketCategory } from "../../../shared/domain/events/appointment.ts";
import {
  callTicket,
  cancelTicket,
  completeTicket,
  issueTicket,
  markTicketNoShow,
  placeHold,
  releaseHold,
} from "../../operations/front-desk-operations.ts";
import { type Command, defineCommand } from "../framework/command.ts";
import { id, newId, number, text, textOrNull } from "../framework/option.ts";

const placed = holdCategory.events.HoldPlaced.shape;
const issued = queueTicketCategory.events.QueueTicketIssued.shape;
const CLINIC = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const BRANCH = "--branch 7c2f9d14-0d7e-4c07-9a6f-1b8e4f5a0005";
const ID = "--id 6e8a4c7b-2c59-49c4-b0c9-7a6d5e4f0006";

const clinic = id("the clinic");
const branch = id("the branch");

function ticketMove(verb: string, summary: string, move: typeof callTicket): Command {
  return defineCommand({
    name: `ticket ${verb}`,
    summary,
    example: `${ID} ${CLINIC}`,
    options: { id: id("the ticket"), clinic },
    category: queueTicketCategory,
    changes: (values) => values.id,
    run: (log, { id: ticketId, clinic: clinicId }, context) => move(log, { ticketId, clinicId }, context),
  });
}

export const frontDeskCommands: Command[] = [
  defineCommand({
    name: "hold place",
    summary: "Reserves a time before an appointment exists.",
    example: `${CLINIC} ${BRANCH} --starts-at 2027-03-01T09:00:00+01:00 --ends-at 2027-03-01T09:30:00+01:00 --expires-at 2027-02-28T18:00:00+01:00`,
    options: {
      id: newId("the new hold's id"),
      clinic,
      branch,
      resource: textOrNull(
        placed.resourceId.unwrap(),
        "the resource; default: any resource of the branch",
        "uuid",
      ),
      startsAt: text(placed.startsAt, "start of the hold", "date-time"),
      endsAt: text(placed.endsAt, "end of the hold", "date-time"),
      expiresAt: text(placed.expiresAt, "time at which the hold expires", "date-time"),
    },
    category: holdCategory,
    changes: (values) => values.id,
    run: (log, { id: holdId, clinic: clinicId, branch: branchId, resource: resourceId, ...times }, context) =>
      placeHold(log, { holdId, clinicId, branchId, resourceId, ...times }, context),
  }),
  defineCommand({
    name: "hold release",
    summary: "Releases a hold.",
    example: `${ID} ${CLINIC}`,
    options: { id: id("the hold"), clinic },
    category: holdCategory,
    changes: (values) => values.id,
    run: (log, { id: holdId, clinic: clinicId }, context) => releaseHold(log, { holdId, clinicId }, context),
  }),
  defineCommand({
    name: "ticket issue",
    summary: "Issues a ticket for the front-desk queue.",
    example: `${CLINIC} ${BRANCH} --number A017 --date 2027-03-01`,
    options: {
      id: newId("the new ticket's id"),
      clinic,
      branch,
      appointment: textOrNull(issued.appointmentId.unwrap(), "the appointment", "uuid"),
      visit: textOrNull(issued.visitId.unwrap(), "the visit", "uuid"),
      animal: textOrNull(issued.animalId.unwrap(), "the animal", "uuid"),
      number: text(issued.ticketNumber, "ticket number that is called"),
      date: text(issued.queueDate, "date of the queue, in the clinic's time zone", "YYYY-MM-DD"),
      arrivalType: text(issued.arrivalType.default("appointment"), "such as walk_in; default: appointment"),
      priority: text(issued.priority.default("normal"), "such as urgent; default: normal"),
      estimatedWaitMinutes: number(issued.estimatedWaitMinutes.default(null), "estimated wait in minutes"),
      notes: textOrNull(issued.notes.unwrap(), "notes"),
    },
    category: queueTicketCategory,
    changes: (values) => values.id,
    run: (log, values, context) => {
      const {
        id: ticketId,
        clinic: clinicId,
        branch: branchId,
        number: ticketNumber,
        date,
        ...rest
      } = values;
      const { appointment: appointmentId, visit: visitId, animal: animalId, ...more } = rest;
      const ids = { ticketId, clinicId, branchId, appointmentId, visitId, animalId };
      return issueTicket(log, { ...ids, ticketNumber, queueDate: date, ...more }, context);
    },
  }),
  ticketMove("call", "Calls a waiting ticket.", callTicket),
  ticketMove("complete", "Completes a called ticket.", completeTicket),
  ticketMove("cancel", "Cancels a ticket.", cancelTicket),
  ticketMove("no-show", "Records that nobody came when the ticket was called.", markTicketNoShow),
];
