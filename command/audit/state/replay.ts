import { z } from "zod";
import { appointmentAggregate } from "../../../shared/domain/appointment/appointment.ts";
import { auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import { animalAggregate } from "../../../shared/domain/clinic/animal.ts";
import { animalConsentAggregate } from "../../../shared/domain/clinic/animal-consent.ts";
import { clinicAggregate } from "../../../shared/domain/clinic/clinic.ts";
import { customerAggregate } from "../../../shared/domain/clinic/customer.ts";
import { holdAggregate } from "../../../shared/domain/clinic/hold.ts";
import { membershipAggregate } from "../../../shared/domain/clinic/membership.ts";
import { portalUserAggregate } from "../../../shared/domain/clinic/portal-user.ts";
import { queueTicketAggregate } from "../../../shared/domain/clinic/queue-ticket.ts";
import { resourceAggregate } from "../../../shared/domain/clinic/resource.ts";
import { serviceAggregate } from "../../../shared/domain/clinic/service.ts";
import { staffAggregate } from "../../../shared/domain/clinic/staff.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { Category } from "../../../shared/domain/events/category.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { applicationAggregate } from "../../../shared/domain/partner/application.ts";
import { installationAggregate } from "../../../shared/domain/partner/installation.ts";
import { endpointAggregate } from "../../../shared/domain/partner/webhook-endpoint.ts";
import { toSandbox } from "../../operations/sandbox-operations.ts";
import { isVisible } from "../access/visibility.ts";
import { type AuditEvent, revealEvent } from "../log/audit-event.ts";
import { readKnownEvents } from "../log/read-stream.ts";
import { type AuditQuery, type ItemStream, type ReadOptions, StreamNotFoundError } from "../queries/audit-query.ts";
import { getCategoryName, positionField, streamField } from "../queries/query-fields.ts";
import { type Change, findChanges } from "./changes.ts";

const replayQuerySchema = z.strictObject({ stream: streamField, after: positionField.optional() });

export interface ReplayStep {
  event: AuditEvent;
  changes: Change[];
  state: unknown;
  /**
   * Reason why changes and state are unknown: this release cannot read this event, or an earlier event of the stream.
   */
  problem?: string;
}

/**
 * Lists each event of a stream, with the fields that the event changed and the resulting state. From the first event
 * that this release cannot read, all steps have no changes, and their state is null. The iteration throws the errors of
 * {@link foldStream}, and {@link StreamNotFoundError}.
 */
export const replayQuery: AuditQuery<typeof replayQuerySchema, ItemStream<ReplayStep>> = {
  action: "replay",
  schema: replayQuerySchema,
  run: async ({ stream, after }, options) => replayStream(stream, after, options),
};

async function* replayStream(stream: string, after = -1n, options: ReadOptions): ItemStream<ReplayStep> {
  let isFound = false;
  for await (const { event, stateBefore, stateAfter, problem } of foldStream(stream, options)) {
    isFound = true;
    if (BigInt(event.position) <= after) continue;
    if (problem !== undefined) yield { event, changes: [], state: null, problem };
    else yield { event, changes: findChanges(stateBefore, stateAfter), state: stateAfter ?? null };
  }
  if (!isFound) throw new StreamNotFoundError(stream);
  return {};
}

/** An event, and the states of the stream before and after it. The state before the first event is undefined. */
interface StateTransition {
  event: AuditEvent;
  stateBefore: unknown;
  stateAfter: unknown;
  /** Reason why the state after the event is unknown. */
  problem: string | undefined;
}

/** The stream contains an event that this release cannot read, so the states after the event are unknown. */
export class UnreadableStreamError extends Error {
  override readonly name = "UnreadableStreamError";
}

/**
 * Yields the events of a stream with the states before and after each event. Uses the same fold functions as the
 * commands. Skips events that the reader may not see, and events that `isIncluded` excludes.
 *
 * @throws {LogUnavailableError} if the event log cannot be read
 */
export async function* foldStream(
  stream: string,
  options: ReadOptions,
  isIncluded: (event: AuditEvent) => boolean = () => true,
): AsyncGenerator<StateTransition, void> {
  const fold = getFold(stream);
  let state: unknown;
  let problem: string | undefined;
  for await (const logEvent of readKnownEvents(options, stream)) {
    const { auditEvent } = logEvent;
    if (!isVisible(auditEvent, options.permittedClinicIds) || !isIncluded(auditEvent)) continue;
    const stateBefore = state;
    const { auditEvent: event, recorded } = await revealEvent(logEvent, options.dataKeys);
    if (typeof recorded === "string")
      problem ??= `stream ${stream} cannot be read at revision ${event.revision}: ${recorded}`;
    else if (problem === undefined) state = fold(stateBefore, recorded);
    yield { event, stateBefore, stateAfter: state, problem };
  }
}

/** Pure function that returns the state of a stream after one more event. */
type Fold = (state: unknown, event: RecordedEvent) => unknown;

const aggregates = [
  ...[appointmentAggregate, holdAggregate, queueTicketAggregate],
  ...[clinicAggregate, serviceAggregate, resourceAggregate, membershipAggregate, staffAggregate],
  ...[portalUserAggregate, customerAggregate, animalAggregate, animalConsentAggregate],
  ...[applicationAggregate, installationAggregate, endpointAggregate, auditorAggregate],
] as const;

const foldsByCategory = new Map<string, Fold>(
  (aggregates as readonly { category: Category; evolve: unknown }[]).map(({ category, evolve }) => [
    category.name,
    evolve as Fold,
  ]),
);
foldsByCategory.set("sandbox", (_, event) => {
  const { revision: _revision, position: _position, ...state } = toSandbox(event as Parameters<typeof toSandbox>[0]);
  return state;
});

/**
 * Returns the function that folds the events of a stream. For a category with an aggregate, this is the aggregate's
 * `evolve` function. For a sandbox, the state is that of the last reset. For any other category, the state contains the
 * latest data of each event type.
 */
export function getFold(stream: string): Fold {
  return foldsByCategory.get(getCategoryName(stream)) ?? keepLastOfEachType;
}

function keepLastOfEachType(state: unknown, { type, data }: CatalogEvent): unknown {
  return { ...(state as Record<string, unknown> | undefined), [type]: data };
}
