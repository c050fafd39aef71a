import { readdirSync } from "node:fs";
import { expect } from "chai";
import type { Aggregate } from "../../../../shared/domain/aggregate.ts";
import * as appointments from "../../../../shared/domain/appointment/appointment.ts";
import { decideRevokeAuditor } from "../../../../shared/domain/audit/auditor.ts";
import { decideCloseClinic, decideSuspendClinic } from "../../../../shared/domain/clinic/clinic.ts";
import { decidePlaceHold, decideReleaseHold } from "../../../../shared/domain/clinic/hold.ts";
import { decideRevokeMembership } from "../../../../shared/domain/clinic/membership.ts";
import * as tickets from "../../../../shared/domain/clinic/queue-ticket.ts";
import { decideRemoveRule, decideRetireResource } from "../../../../shared/domain/clinic/resource.ts";
import { decideWithdrawService } from "../../../../shared/domain/clinic/service.ts";
import { decideDeactivateStaff } from "../../../../shared/domain/clinic/staff.ts";
import { DomainError } from "../../../../shared/domain/domain-error.ts";
import { categories, getCompleteTypes, refuseTooManyChanges } from "../../../../shared/domain/events/catalog.ts";
import type { Category } from "../../../../shared/domain/events/category.ts";
import { environment as environments } from "../../../../shared/domain/events/fields.ts";
import * as applications from "../../../../shared/domain/partner/application.ts";
import { decideNarrowInstallation, decideRevokeInstallation } from "../../../../shared/domain/partner/installation.ts";
import { decideRequestReplay } from "../../../../shared/domain/partner/webhook-replay.ts";
import { findPersonalFields } from "../../../../shared/domain/personal-data/personal-fields.ts";
import { listExtremes } from "../../../support/extreme-values.ts";
import { DEFAULT_EVENT_TIME } from "../../../support/given.ts";
import { clinic } from "../clinic/a-clinic.ts";
import { clinicId, mainBranchId, someId } from "../clinic/ids.ts";
import { decideOrRefuse } from "../decide-or-refuse.ts";

interface AnyEvent {
  type: string;
  data: unknown;
}
// biome-ignore lint/suspicious/noExplicitAny: the test treats all aggregates and deciders alike
type AnyState = any;
type AnyAggregate = Omit<Aggregate<Category, AnyState>, "evolve"> & {
  evolve(state: AnyState, event: AnyEvent & { metadata: object }): AnyState;
};
type AnyDecision = (state: AnyState) => AnyEvent[];

const domainFolder = new URL("../../../../shared/domain/", import.meta.url);
const modules = await Promise.all(
  readdirSync(domainFolder, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .map((file) => import(new URL(file, domainFolder).href) as Promise<Record<string, unknown>>),
);
const aggregates = modules
  .flatMap((module) => Object.values(module) as AnyAggregate[])
  .filter((value) => typeof value === "object" && value !== null && "evolve" in value);
const findAggregate = (name: string) => aggregates.find(({ category }) => category.name === name);

const evolve = (aggregate: AnyAggregate, state: AnyState, event: AnyEvent) =>
  aggregate.evolve(state, { ...event, metadata: { occurredAt: DEFAULT_EVENT_TIME } });
const listEvents = ({ events }: Category, types: readonly string[] = Object.keys(events)): AnyEvent[] =>
  types.flatMap((type) => listExtremes(events[type]!).map((data) => ({ type, data: events[type]!.parse(data) })));

const ref = { clinicId, holdId: someId, ticketId: someId, serviceId: someId, resourceId: someId, staffId: someId };
const erasure = { categories: ["notes"], cause: "request", reason: "asked" } as const;
const window = { startsAt: "2026-05-05T08:00:00.000Z", endsAt: "2026-05-05T09:00:00.000Z" };
const hold = { ...ref, ...window, branchId: mainBranchId, resourceId: null, expiresAt: window.startsAt };
const ticketTexts = { ticketNumber: "A1", queueDate: "2026-05-05", arrivalType: "walk-in", priority: "normal" };
const ticketIds = { ...ref, branchId: mainBranchId, appointmentId: null, visitId: null, animalId: null };
const ticket = { ...ticketIds, ...ticketTexts, customerId: null, estimatedWaitMinutes: null, notes: null };
const replay = { requestHash: "a", replayId: someId } as Parameters<typeof decideRequestReplay>[0];
const activeEndpoint = { status: "active" } as Parameters<typeof decideRequestReplay>[1];
const now = Date.parse("2026-05-04T08:00:00.000Z");

/**
 * Deciders that nobody limits, and a state from which they start. The categories are those of finite transitions, and
 * those with a maximum and exceptions from it.
 */
const unlimitedDeciders: Record<string, { state?: AnyState; deciders: AnyDecision[] }> = {
  auditAccess: { deciders: [] }, // each access has a new stream
  hold: { deciders: [decidePlaceHold(hold, clinic, now), decideReleaseHold(ref)] },
  queueTicket: {
    deciders: [
      tickets.decideIssueTicket(ticket, clinic),
      ...[tickets.decideCallTicket(ref), tickets.decideCompleteTicket(ref), tickets.decideCancelTicket(ref)],
      ...[
        tickets.decideMarkTicketNoShow(ref),
        tickets.decideEraseTicket({ ...ref, ...erasure, categories: ["notes"] }),
      ],
    ],
  },
  // The webhooks role completes a replay once.
  webhookReplay: { deciders: [decideRequestReplay(replay, activeEndpoint)] },
  clinic: {
    state: { status: "active" },
    deciders: [decideSuspendClinic({ clinicId, reason: "late" }), decideCloseClinic({ clinicId, reason: "late" })],
  },
  service: { state: { clinicId, active: true }, deciders: [decideWithdrawService(ref)] },
  resource: {
    state: { clinicId, active: true, rules: { a: { ruleId: "a" }, b: { ruleId: "b" } } },
    deciders: [decideRetireResource(ref), ...["a", "b"].map((ruleId) => decideRemoveRule({ ...ref, ruleId }))],
  },
  membership: {
    state: { clinicId, status: "active" },
    deciders: [decideRevokeMembership({ clinicId, membershipId: someId, reason: null }, undefined)],
  },
  staff: { state: { clinicId, active: true }, deciders: [decideDeactivateStaff(ref)] },
  customer: { deciders: [] },
  auditor: { state: { revoked: false }, deciders: [decideRevokeAuditor(null)] },
  quarantine: { deciders: [] },
  partnerApplication: {
    state: {
      credentials: [{ id: "a" }, { id: "b" }],
      revokedCredentialIds: [],
      webhookOrigins: ["https://a.example"],
    },
    deciders: [
      ...["a", "b"].map(applications.decideRevokeCredential),
      applications.decideWithdrawWebhookOrigin("https://a.example"),
      applications.decideRevokeApplication(null),
    ],
  },
  installation: {
    state: { status: "approved", scopes: ["clinic:read", "webhooks:read"], branchIds: null, animalAccess: "all" },
    deciders: [
      ...[{ scopes: ["clinic:read" as const] }, { branchIds: [someId] }, { animalAccess: "linked" as const }].map(
        (narrowing) => decideNarrowInstallation(narrowing, clinic),
      ),
      decideRevokeInstallation(null),
    ],
  },
  appointment: {
    state: {
      status: "requested",
      customerId: null,
      scheduledAt: DEFAULT_EVENT_TIME,
      assignments: ["a", "b"].map((id) => ({ id, active: true })),
    },
    deciders: [
      ...[appointments.decideConfirm(), appointments.decideCheckIn(), appointments.decidePutInWaiting()],
      ...[appointments.decideStartConsultation(), appointments.decideComplete(), appointments.decideMarkNoShow(now)],
      ...[appointments.decideCancel(null, undefined), appointments.decideEraseAppointment(erasure as never)],
      ...["a", "b"].map(appointments.decideRelease),
    ],
  },
};

const MAX_DECISIONS = 15;

/** An operator can repeat these events. Each of them serves the privacy of a person, or lets a stream continue. */
const REPEATABLE = ["CustomerDataErased", "StaffDataErased", "AuditorDataErased", "StreamResumed"];

/** Runs the deciders in any order, until none of them returns an event. @returns the types of all events */
function exhaust(aggregate: AnyAggregate, initialState: AnyState, deciders: AnyDecision[]): Set<string> {
  const types = new Set<string>();
  let states = [initialState];
  for (let count = 0; count < MAX_DECISIONS; count += 1) {
    const nextStates = new Map<string, AnyState>();
    for (const [state, decide] of states.flatMap((state) => deciders.map((decide) => [state, decide] as const))) {
      const events = decideOrRefuse(decide, state);
      for (const { type } of events) types.add(type);
      const nextState = events.reduce<AnyState>((last, event) => evolve(aggregate, last, event), state);
      if (events.length > 0) nextStates.set(JSON.stringify(nextState), nextState);
    }
    if (nextStates.size === 0) return types;
    states = [...nextStates.values()];
  }
  throw new Error(`${aggregate.category.name} can be changed without end`);
}

function isRefused(stream: string, length: number, environment: "production" | "sandbox", type: string): boolean {
  try {
    refuseTooManyChanges(stream, BigInt(length - 2), [{ event: { type }, metadata: { environment } }]);
    return false;
  } catch (error) {
    if (error instanceof DomainError && error.code === "too_many_changes") return true;
    throw error;
  }
}

for (const category of categories as readonly Category[]) {
  const { name, bound } = category;
  describe(`streams of the category ${name}`, () => {
    const aggregate = findAggregate(name);

    it("the aggregate has a summary exactly if the category declares one", () => {
      expect(aggregate?.summarize !== undefined).to.equal(bound.by === "summaries");
    });

    // If a category has no aggregate, its readers read only the last event.
    const completeTypes = getCompleteTypes(`${name}-x`);
    if (aggregate && completeTypes.length > 0)
      it("the state after a complete event does not depend on earlier events", () => {
        const formerStates = Object.keys(category.events)
          .flatMap((type) => listEvents(category, [type]).slice(-1))
          .map((event) => evolve(aggregate, undefined, event))
          .filter((state) => state !== undefined);
        expect(formerStates).not.to.be.empty;
        for (const event of listEvents(category, completeTypes))
          for (const formerState of formerStates)
            expect(evolve(aggregate, formerState, event)).to.deep.equal(evolve(aggregate, undefined, event));
      });

    if (bound.by === "summaries")
      it("a summary contains the whole state, and no personal data", () => {
        for (const event of listEvents(category, completeTypes)) {
          const state = evolve(aggregate!, undefined, event);
          const summary = aggregate!.summarize!(state) as AnyEvent;
          expect(evolve(aggregate!, undefined, summary)).to.deep.equal(state);
          expect(completeTypes).to.include(summary.type);
          expect(findPersonalFields(summary.type as never)).to.equal(undefined);
        }
      });

    if (bound.by === "maxChanges")
      it("only events that end something are permitted beyond the maximum", () => {
        const permittedTypes = [...bound.except, ...bound.completeTypes];
        for (const environment of environments.options) {
          const maxChanges = name === "appointment" && environment === "sandbox" ? 500 : 5_000;
          for (const type of Object.keys(category.events)) {
            expect(isRefused(`${name}-x`, maxChanges, environment, type), type).to.equal(false);
            const isPermitted = !isRefused(`${name}-x`, maxChanges + 1, environment, type);
            expect(isPermitted, type).to.equal(permittedTypes.includes(type));
            if (/Ended|Erased|Revoked|Withdrawn|Cancelled|Closed|Suspended|Retired|Removed|Released|Resumed/.test(type))
              expect(isPermitted, type).to.equal(true);
          }
        }
      });

    if (bound.by === "finiteTransitions" || (bound.by === "maxChanges" && bound.except.length > 0))
      it("commands without a limit append only a few events", () => {
        const { state, deciders } = unlimitedDeciders[name]!;
        const types = aggregate ? exhaust(aggregate, state, deciders) : new Set<string>();
        if (bound.by !== "maxChanges") return;
        expect(bound.except).to.include.members([...types]);
        expect([...types, ...REPEATABLE]).to.include.members([...bound.except]);
      });
  });
}
