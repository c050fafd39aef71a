import { hash } from "node:crypto";
import type Koa from "koa";
import { LRUCache } from "lru-cache";
import type { z } from "zod";
import { type Appointment, appointmentAggregate } from "../../shared/domain/appointment/appointment.ts";
import { decideRequest } from "../../shared/domain/appointment/request.ts";
import { animalAggregate } from "../../shared/domain/clinic/animal.ts";
import { animalConsentAggregate, findAnimalLink } from "../../shared/domain/clinic/animal-consent.ts";
import { type Customer, customerAggregate } from "../../shared/domain/clinic/customer.ts";
import { requestDefaults } from "../../shared/domain/events/appointment.ts";
import type { ConsentCoverage } from "../../shared/domain/events/consent.ts";
import { derivePartnerAppointmentId } from "../../shared/domain/events/ids.ts";
import { findFixtureAnimal } from "../../shared/domain/partner/sandbox.ts";
import { isErased } from "../../shared/domain/personal-data/erasure.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { toPartnerAppointment } from "../../shared/partner-api/records.ts";
import { appointmentRequest } from "../../shared/partner-api/request-bodies.ts";
import type { Decide } from "../handling/aggregate-cache.ts";
import { type CommandResult, handle } from "../handling/handle.ts";
import { resolveSandbox } from "../operations/sandbox-operations.ts";
import { parseIdempotentRequest } from "./errors.ts";
import { createBodyDecider, type DecisionContext, toCommandContext, type WriteState } from "./request-context.ts";

/** Revision of an appointment's first event, which creates the appointment as requested. */
const FIRST_REVISION = 0n;

/**
 * POST /appointments: returns 201. A repeated request with the same idempotency key gets the same response. The
 * appointment's id is derived from the key, so that the event log accepts only one of several concurrent requests.
 */
export function createAppointment({ log, decide }: { log: EventLog; decide: Decide }): Koa.Middleware<WriteState> {
  const recentRequests: RecentRequests = new LRUCache({
    maxSize: MAX_CACHE_BYTES,
    sizeCalculation: () => REQUEST_BYTES,
  });
  const decideWithBody = createBodyDecider(decide);
  return async (ctx) => {
    const { initialState, events, statePosition } = await decideWithBody(
      ctx,
      () => readCreateRequest(ctx),
      (request, context) => requestIdempotently({ log, recentRequests, ...context }, request, ctx.state),
    );
    if (!initialState) throw new Error("the appointment has no first event");
    ctx.state.logPosition = statePosition;
    if (events.length === 0) ctx.set("Idempotent-Replayed", "true");
    ctx.set("Location", `${ctx.path}/${initialState.id}`);
    ctx.status = 201;
    ctx.body = { ok: true, appointment: toPartnerAppointment(initialState, FIRST_REVISION) };
  };
}

type RequestResult = Pick<CommandResult<Appointment>, "initialState" | "events" | "statePosition">;

/** Results of the requests that this process has recently handled, by id of the appointment. */
type RecentRequests = LRUCache<string, RequestResult>;

/** About 5,000 requests. */
const MAX_CACHE_BYTES = 10 * 1024 * 1024;

/** Requests with notes are not remembered, so all take about the same memory. */
const REQUEST_BYTES = 2_000;

/**
 * Requests the appointment. If an earlier request with the same key has requested it, nothing changes. A recent request
 * without notes is repeated from memory, because the first event of an appointment never changes.
 */
async function requestIdempotently(
  dependencies: DecisionContext & { log: EventLog; recentRequests: RecentRequests },
  request: CreateRequest,
  state: WriteState,
): Promise<RequestResult> {
  const { log, load, recentRequests } = dependencies;
  const { environment, applicationId, clinicId, now } = state;
  const { idempotencyKey, animalId, notes = null, ...details } = request;
  const { clinic, sandbox } = await resolveSandbox(log, dependencies.clinic);
  const { sandboxGeneration } = clinic;
  const key = { environment, sandboxGeneration, applicationId, clinicId, idempotencyKey };
  const appointmentId = derivePartnerAppointmentId(key);
  // The animals of a sandbox's fixture have no owner in the log.
  const animal = sandbox ? findFixtureAnimal(sandbox, animalId) : (await load(animalAggregate, animalId)).state;
  const customer = !sandbox && animal ? (await load(customerAggregate, animal.customerId)).state : undefined;
  const animalAccess = await loadAnimalAccess(dependencies, animalId, customer);
  const decide = decideRequest(
    {
      ...requestDefaults,
      ...details,
      animalId,
      notes,
      appointmentId,
      clinicId,
      applicationId,
      sandboxGeneration,
    },
    { clinic, animal, customer, animalAccess, permittedBranchIds: dependencies.installation.branchIds, now },
  );
  const earlierResult = recentRequests.get(appointmentId);
  if (earlierResult?.initialState) return { ...earlierResult, events: decide(earlierResult.initialState) };
  const context = toCommandContext(state);
  const commandResult = await handle(log, appointmentAggregate, appointmentId, decide, context, {
    isExpectedNew: true,
  });
  // Memory keeps neither notes nor their hash, because they may be erased.
  const { initialState, statePosition } = commandResult;
  if (notes === null) recentRequests.set(appointmentId, { initialState, events: [], statePosition });
  return commandResult;
}

/** Without access to all animals, the application needs a link. The erasure of the owner ends all links. */
async function loadAnimalAccess(
  { load, installation }: DecisionContext,
  animalId: string,
  owner: Customer | undefined,
): Promise<"none" | ConsentCoverage> {
  if (installation.animalAccess === "all") return "appointments_write";
  const link = findAnimalLink((await load(animalConsentAggregate, animalId)).state, installation);
  return link && !(owner && isErased(owner)) ? link.covers : "none";
}

interface CreateRequest extends z.output<typeof appointmentRequest> {
  idempotencyKey: string;
  /** SHA-256 (hex) of the requested values. Different notations of the same values have the same hash. */
  requestHash: string;
  textHash: string;
}

/** @throws {ApiError} 422 with all problems of the body and the header, or if the body contradicts the branch header */
function readCreateRequest(ctx: Koa.ParameterizedContext<WriteState>): CreateRequest {
  const { body, idempotencyKey } = parseIdempotentRequest(ctx, appointmentRequest, 422);
  const { branchId, animalId, scheduledAt, notes = null } = body;
  if (ctx.state.branchId !== null && ctx.state.branchId !== branchId) {
    const details = [{ path: "branchId", message: "must equal the branch header" }];
    throw new ApiError(422, "validation_failed", { details });
  }
  const hashJson = (value: unknown) => hash("sha256", JSON.stringify(value));
  const requestHash = hashJson([branchId, animalId, scheduledAt]);
  return { ...body, idempotencyKey, requestHash, textHash: hashJson(notes) };
}
