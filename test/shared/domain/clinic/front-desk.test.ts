import { expect } from "chai";
import fc from "fast-check";
import * as holds from "../../../../shared/domain/clinic/hold.ts";
import { holdAggregate } from "../../../../shared/domain/clinic/hold.ts";
import * as tickets from "../../../../shared/domain/clinic/queue-ticket.ts";
import { type QueueTicketStatus, queueTicketAggregate } from "../../../../shared/domain/clinic/queue-ticket.ts";
import type { HoldEvent, QueueTicketEvent } from "../../../../shared/domain/events/appointment.ts";
import type { Erasure } from "../../../../shared/domain/personal-data/erasure.ts";
import { fold, given } from "../../../support/given.ts";
import { decideOrRefuse } from "../decide-or-refuse.ts";
import { clinic } from "./a-clinic.ts";
import { clinicId, mainBranchId, otherClinicId, otherId, someId } from "./ids.ts";

const givenHold = (...history: HoldEvent[]) => given(holdAggregate, ...history);
const givenTicket = (...history: QueueTicketEvent[]) => given(queueTicketAggregate, ...history);

describe("a hold", () => {
  const target = { clinicId, holdId: someId };
  const now = Date.parse("2026-05-04T08:00:00.000Z");
  const placement = {
    ...target,
    branchId: mainBranchId,
    resourceId: null,
    startsAt: "2026-05-05T08:00:00.000Z",
    endsAt: "2026-05-05T08:30:00.000Z",
    expiresAt: "2026-05-04T09:00:00.000Z",
  };
  const placed: HoldEvent = { type: "HoldPlaced", data: placement };
  const released: HoldEvent = { type: "HoldReleased", data: { holdId: someId } };

  it("repeating a command to place a hold changes nothing, even after the hold expired", () => {
    givenHold().when(holds.placeHold(placement, clinic, now), [placed]);
    const nextDayMs = now + 86_400_000;
    givenHold(placed).when(holds.placeHold(placement, clinic, nextDayMs), []);
  });
  const invalidHolds = [
    { change: { endsAt: placement.startsAt }, code: "hold_ends_before_start" },
    { change: { expiresAt: "2026-05-04T08:00:00.000Z" }, code: "hold_expired" },
    { change: { branchId: otherId }, code: "branch_not_found" },
    { change: { resourceId: otherId, endsAt: "2026-07-05T08:00:00.000Z" }, code: "hold_too_long" },
  ];
  for (const { change, code } of invalidHolds)
    it(`an invalid hold is refused with ${code}`, () => {
      givenHold().when(holds.placeHold({ ...placement, ...change }, clinic, now), code);
    });
  it("releasing a released hold changes nothing", () => {
    givenHold(placed).whenOnce(holds.releaseHold(target), released);
    givenHold(placed).when(holds.releaseHold({ ...target, clinicId: otherClinicId }), "hold_not_found");
  });
});

describe("a queue ticket", () => {
  const target = { clinicId, ticketId: someId };
  const issueInput = {
    ...target,
    branchId: mainBranchId,
    appointmentId: null,
    visitId: null,
    animalId: null,
    customerId: null,
    ticketNumber: "A001",
    queueDate: "2026-05-04",
    arrivalType: "walk_in",
    priority: "normal",
    estimatedWaitMinutes: null,
    notes: null,
  };
  const ticketId = someId;
  const issued: QueueTicketEvent = { type: "QueueTicketIssued", data: issueInput };
  const called: QueueTicketEvent = { type: "QueueTicketCalled", data: { ticketId } };
  const completed: QueueTicketEvent = { type: "QueueTicketCompleted", data: { ticketId } };
  const cancelled: QueueTicketEvent = { type: "QueueTicketCancelled", data: { ticketId } };
  const markedNoShow: QueueTicketEvent = { type: "QueueTicketMarkedNoShow", data: { ticketId } };

  it("a queue ticket can be issued only once, and only at a branch of the clinic", () => {
    givenTicket().when(tickets.issueTicket(issueInput, clinic), [issued]);
    givenTicket(issued, called).when(tickets.issueTicket(issueInput, clinic), []);
    givenTicket().when(tickets.issueTicket({ ...issueInput, branchId: otherId }, clinic), "branch_not_found");
  });

  const histories: Record<QueueTicketStatus, QueueTicketEvent[]> = {
    waiting: [issued],
    called: [issued, called],
    completed: [issued, called, completed],
    cancelled: [issued, cancelled],
    no_show: [issued, called, markedNoShow],
  };
  const transitions = [
    { decide: tickets.callTicket, event: called, to: "called", from: ["waiting"] },
    { decide: tickets.completeTicket, event: completed, to: "completed", from: ["called"] },
    { decide: tickets.cancelTicket, event: cancelled, to: "cancelled", from: ["waiting", "called"] },
    { decide: tickets.markTicketNoShow, event: markedNoShow, to: "no_show", from: ["waiting", "called"] },
  ];
  for (const { decide, event, to: toStatus, from: fromStatuses } of transitions) {
    for (const [status, history] of Object.entries(histories)) {
      const outcome = fromStatuses.includes(status)
        ? "succeeds"
        : status === toStatus
          ? "changes nothing"
          : "is refused";
      it(`changing a queue ticket from the status ${status} to ${toStatus} ${outcome}`, () => {
        const outcomes = { succeeds: [event], "changes nothing": [], "is refused": "illegal_ticket_move" };
        givenTicket(...history).when(decide(target), outcomes[outcome]);
      });
    }
  }
  it("a queue ticket of another clinic is reported as missing", () => {
    givenTicket(issued).when(tickets.callTicket({ ...target, clinicId: otherClinicId }), "queue_ticket_not_found");
  });

  it("only a ticket without a customer can be erased by itself", () => {
    const erasure: Erasure = { categories: ["notes"], cause: "retention", reason: "Kept for 12 months" };
    const erased: QueueTicketEvent = { type: "QueueTicketDataErased", data: { ticketId, ...erasure } };
    const erase = tickets.eraseTicket({ ...target, ...erasure });
    givenTicket(issued).whenOnce(erase, erased);
    const issuedForCustomer: QueueTicketEvent = { ...issued, data: { ...issueInput, customerId: otherId } };
    givenTicket(issuedForCustomer).when(erase, "ticket_has_customer");
    const issuedWithNotes: QueueTicketEvent = { ...issued, data: { ...issueInput, notes: "Bites" } };
    expect(givenTicket(issuedWithNotes, erased, called).state).to.deep.include({
      status: "called",
      issue: issueInput,
    });
  });

  it("no sequence of commands leads a queue ticket to an illegal state", () => {
    // Permitted next statuses, specified independently of the deciders.
    const nextStatuses: Record<QueueTicketStatus, QueueTicketStatus[]> = {
      waiting: ["called", "cancelled", "no_show"],
      called: ["completed", "cancelled", "no_show"],
      completed: [],
      cancelled: [],
      no_show: [],
    };
    const commands = [tickets.issueTicket(issueInput, clinic), ...transitions.map(({ decide }) => decide(target))];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...commands), { maxLength: 20 }), (deciders) => {
        let history: QueueTicketEvent[] = [];
        for (const decide of deciders) {
          const stateBefore = fold(queueTicketAggregate, history);
          history = [...history, ...decideOrRefuse(decide, stateBefore)];
          const stateAfter = fold(queueTicketAggregate, history);
          if (!stateBefore) expect(stateAfter?.status ?? "waiting").to.equal("waiting");
          else if (stateAfter?.status !== stateBefore.status)
            expect(nextStatuses[stateBefore.status]).to.include(stateAfter?.status);
        }
        // A history has at most one issue, one call and one final event.
        expect(history.length).to.be.at.most(3);
        history.forEach((event, index) => {
          expect(event.type === "QueueTicketIssued").to.equal(index === 0);
          const state = fold(queueTicketAggregate, history.slice(0, index + 1));
          expect(state).to.include({ id: someId, clinicId });
        });
      }),
      { numRuns: 300 },
    );
  });
});
