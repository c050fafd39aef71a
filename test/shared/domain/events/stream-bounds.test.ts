import { readdirSync, readFileSync } from "node:fs";
import { expect } from "chai";
import * as appointments from "../../../../shared/domain/appointment/appointment.ts";
import { appointmentAggregate } from "../../../../shared/domain/appointment/appointment.ts";
import { auditorAggregate } from "../../../../shared/domain/audit/auditor.ts";
import { animalAggregate } from "../../../../shared/domain/clinic/animal.ts";
import { animalConsentAggregate, animalLinkCodeAggregate } from "../../../../shared/domain/clinic/animal-consent.ts";
import { clinicAggregate } from "../../../../shared/domain/clinic/clinic.ts";
import { customerAggregate } from "../../../../shared/domain/clinic/customer.ts";
import { holdAggregate } from "../../../../shared/domain/clinic/hold.ts";
import { membershipAggregate } from "../../../../shared/domain/clinic/membership.ts";
import { portalUserAggregate } from "../../../../shared/domain/clinic/portal-user.ts";
import { queueTicketAggregate } from "../../../../shared/domain/clinic/queue-ticket.ts";
import { resourceAggregate } from "../../../../shared/domain/clinic/resource.ts";
import { serviceAggregate } from "../../../../shared/domain/clinic/service.ts";
import { staffAggregate } from "../../../../shared/domain/clinic/staff.ts";
import { appointmentStreams } from "../../../../shared/domain/events/appointment.ts";
import { categories, getCompleteTypes, refuseTooManyChanges } from "../../../../shared/domain/events/catalog.ts";
import type { Category } from "../../../../shared/domain/events/category.ts";
import { environment as environments } from "../../../../shared/domain/events/fields.ts";
import { operatorAggregate } from "../../../../shared/domain/operator.ts";
import { applicationAggregate } from "../../../../shared/domain/partner/application.ts";
import { installationAggregate } from "../../../../shared/domain/partner/installation.ts";
import { endpointAggregate } from "../../../../shared/domain/partner/webhook-endpoint.ts";
import { replayAggregate } from "../../../../shared/domain/partner/webhook-replay.ts";
import { findPersonalFields } from "../../../../shared/domain/personal-data/personal-fields.ts";
import { listExtremes } from "../../../support/extreme-values.ts";
import { DEFAULT_EVENT_TIME } from "../../../support/given.ts";
import { decideOrRefuse } from "../decide-or-refuse.ts";

type AnyEvent = { type: string; data: unknown };
// biome-ignore lint/suspicious/noExplicitAny: the test treats all aggregates, states and commands alike
type Any = any;
type AnyAggregate = { category: Category; evolve(state: Any, event: object): Any; summarize?(state: Any): AnyEvent };

const aggregates: AnyAggregate[] = [
  animalAggregate,
  animalConsentAggregate,
  animalLinkCodeAggregate,
  applicationAggregate,
  appointmentAggregate,
  auditorAggregate,
  clinicAggregate,
  customerAggregate,
  endpointAggregate,
  operatorAggregate,
  holdAggregate,
  installationAggregate,
  membershipAggregate,
  portalUserAggregate,
  queueTicketAggregate,
  replayAggregate,
  resourceAggregate,
  serviceAggregate,
  staffAggregate,
];

const evolve = (aggregate: AnyAggregate, state: Any, event: AnyEvent) =>
  aggregate.evolve(state, { ...event, metadata: { occurredAt: DEFAULT_EVENT_TIME } });
const listEvents = ({ events }: Category, type: string): AnyEvent[] =>
  listExtremes(events[type]!).map((data) => ({ type, data: events[type]!.parse(data) }));

/** Categories whose streams end after a few events. For example, a queue ticket reaches each status only once. */
const FINITE = ["queueTicket", "webhookReplay", "auditAccess", "operator"];

/** Changes of an appointment that are permitted at any length of its stream. */
const transitions = [
  ...(["AppointmentConfirmed", "AppointmentCheckedIn", "AppointmentPutInWaiting", "ConsultationStarted"] as const),
  ...(["AppointmentCompleted", "AppointmentCancelled", "AppointmentMarkedNoShow"] as const),
];
const unlimitedDeciders = [
  ...transitions.map((type) => appointments.changeStatus(type, Date.now())),
  ...[appointments.releaseResource("a"), appointments.releaseResource("b")],
  appointments.eraseAppointment({
    ...{ clinicId: "clinic", appointmentId: "appointment" },
    ...{ categories: ["notes"], cause: "request", reason: "asked" },
  }),
];

it("an appointment ends after a few changes without a limit, in any order", () => {
  const assignments = ["a", "b"].map((id) => ({ id, active: true }));
  const initialState = {
    clinicId: "clinic",
    status: "requested",
    customerId: null,
    scheduledAt: DEFAULT_EVENT_TIME,
    assignments,
  };
  const types = new Set<string>();
  let states = [initialState as Any];
  for (let step = 0; states.length > 0; step += 1) {
    expect(step).to.be.below(15);
    const nextStates = new Map<string, Any>();
    for (const [state, decide] of states.flatMap((last) =>
      unlimitedDeciders.map((decide) => [last, decide] as const),
    )) {
      const events = decideOrRefuse(decide, state);
      for (const { type } of events) types.add(type);
      const nextState = events.reduce(
        (last, event) => evolve(appointments.appointmentAggregate as Any, last, event),
        state,
      );
      if (events.length > 0) nextStates.set(JSON.stringify(nextState), nextState);
    }
    states = [...nextStates.values()];
  }
  const except = "except" in appointmentStreams.bound ? appointmentStreams.bound.except : [];
  // Only a writer whose outcome is unknown abandons a reservation.
  expect(except.filter((type) => type !== "ReservationAbandoned")).to.have.members([...types]);
});

/**
 * Checks that the state after a complete event does not depend on earlier events, and that a summary preserves this
 * state.
 */
function requireCompleteEvents(aggregate: AnyAggregate, completeTypes: readonly string[]): void {
  const { category } = aggregate;
  const formerEvents = Object.keys(category.events).flatMap((type) => listEvents(category, type).slice(-1));
  const formerStates = formerEvents.flatMap((event) => evolve(aggregate, undefined, event) ?? []);
  for (const event of completeTypes.flatMap((type) => listEvents(category, type))) {
    const state = evolve(aggregate, undefined, event);
    for (const formerState of formerStates) expect(evolve(aggregate, formerState, event)).to.deep.equal(state);
    const summary = aggregate.summarize?.(state);
    if (!summary) continue;
    expect(evolve(aggregate, undefined, summary)).to.deep.equal(state);
    expect(findPersonalFields(summary.type as Any)).to.equal(undefined);
  }
}

const ENDING =
  /(Ended|Erased|Revoked|Withdrawn|Cancelled|Closed|Suspended|Retired|Removed|Released|Resumed|Deactivated|Abandoned)$/;

for (const category of categories as readonly Category[]) {
  const { name, bound, events } = category;
  const aggregate = aggregates.find((candidate) => candidate.category === category);
  const completeTypes = getCompleteTypes(`${name}-x`);

  it(`streams of the category ${name} stay short by ${bound.by}`, () => {
    expect(aggregate?.summarize !== undefined, "summary").to.equal(bound.by === "summaries");
    // If a category has no aggregate, its readers read only the last event.
    if (aggregate && completeTypes.length > 0) requireCompleteEvents(aggregate, completeTypes);
    if (bound.by === "finiteTransitions") expect(FINITE).to.include(name);
    if (bound.by !== "maxChanges") return;
    for (const environment of environments.options) {
      const maxChanges = name === "appointment" && environment === "sandbox" ? 500 : 5_000;
      const append = (type: string, length: number) => () =>
        refuseTooManyChanges(`${name}-x`, BigInt(length - 2), [{ event: { type }, metadata: { environment } }]);
      for (const type of Object.keys(events)) {
        expect(append(type, maxChanges), type).not.to.throw();
        const isPermitted = ENDING.test(type) || [...bound.except, ...completeTypes].includes(type);
        if (isPermitted) expect(append(type, maxChanges + 1), type).not.to.throw();
        else
          expect(append(type, maxChanges + 1), type)
            .to.throw()
            .with.property("code", "too_many_changes");
      }
    }
  });
}

it("the test of the bounds knows every aggregate of the domain", () => {
  const files = readdirSync("shared/domain", { recursive: true, encoding: "utf8" }).filter((file) =>
    file.endsWith(".ts"),
  );
  const sources = files.map((file) => readFileSync(`shared/domain/${file}`, "utf8"));
  const count = sources.join().match(/^export const \w+: Aggregate</gm)?.length;
  expect(aggregates).to.have.length(count ?? 0);
});
