import { LRUCache } from "lru-cache";
import type { z } from "zod";
import { type Appointment, appointmentAggregate } from "../../shared/domain/appointment/appointment.ts";
import * as requests from "../../shared/domain/appointment/request.ts";
import { animalAggregate } from "../../shared/domain/clinic/animal.ts";
import { animalConsentAggregate, findAnimalLink } from "../../shared/domain/clinic/animal-consent.ts";
import { type Customer, customerAggregate } from "../../shared/domain/clinic/customer.ts";
import { requestDefaults } from "../../shared/domain/events/appointment.ts";
import type { ConsentCoverage } from "../../shared/domain/events/consent.ts";
import { derivePartnerAppointmentId } from "../../shared/domain/events/ids.ts";
import { findFixtureAnimal } from "../../shared/domain/partner/sandbox.ts";
import { isErased } from "../../shared/domain/personal-data/erasure.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { toPartnerAppointment } from "../../shared/partner-api/records.ts";
import { appointmentRequest } from "../../shared/partner-api/request-bodies.ts";
import { type CommandContext, type CommandResult, handle } from "../handling/handle.ts";
import { hashInput } from "../operations/appointment-operations.ts";
import { resolveSandbox } from "../operations/sandbox-operations.ts";
import { bookAppointment } from "./book-appointment.ts";
import { parseIdempotentRequest } from "./errors.ts";
import {
  type DecisionContext,
  decideAtClinic,
  type PartnerService,
  type WriteContext,
  type WriteHandler,
} from "./request-context.ts";

/**
 * POST /appointments: returns 201. A repeated request with the same idempotency key gets the same response. The
 * appointment's id is derived from the key, so that the event log accepts only one of several concurrent requests.
 */
export function createAppointment(): WriteHandler {
  const recentRequests: RecentRequests = new LRUCache({
    maxSize: MAX_CACHE_BYTES,
    sizeCalculation: () => REQUEST_BYTES,
  });
  return async ({ log, slotSearch, decide }, ctx, context) => {
    const request = readCreateRequest(ctx);
    const { initialState, initialRevision, events, statePosition } = await decideAtClinic(
      decide,
      ctx.state,
      (decisionContext) =>
        requestIdempotently({ log, slotSearch, recentRequests, ...decisionContext }, request, ctx.state, context),
    );
    if (!initialState) throw new Error("the appointment has no first event");
    if (events.length === 0) ctx.set("Idempotent-Replayed", "true");
    ctx.set("Location", `${ctx.path}/${initialState.id}`);
    const appointment = toPartnerAppointment(initialState, initialRevision);
    return { logPosition: statePosition, body: { appointment } };
  };
}

type RequestResult = Pick<CommandResult<Appointment>, "initialState" | "initialRevision" | "events" | "statePosition">;

/** Results of the requests that this process has recently handled, by id of the appointment. */
type RecentRequests = LRUCache<string, RequestResult>;

/** Maximum memory for recent requests, in bytes: enough for about 5,000 requests. */
const MAX_CACHE_BYTES = 10 * 1024 * 1024;

/** Estimated memory of a remembered request. Requests with notes are not remembered. */
const REQUEST_BYTES = 2_000;

/**
 * Requests the appointment. If an earlier request with the same key has created it, nothing changes. A recent request
 * without notes is repeated from memory. This is safe, because the first event of an appointment never changes.
 */
async function requestIdempotently(
  dependencies: DecisionContext & Pick<PartnerService, "log" | "slotSearch"> & { recentRequests: RecentRequests },
  request: CreateRequest,
  { environment, applicationId, clinicId, now }: WriteContext["state"],
  context: CommandContext,
): Promise<RequestResult> {
  const { log, load, recentRequests } = dependencies;
  const { idempotencyKey, animalId, notes = null, resourceId, resourceType, ...details } = request;
  const { durationMinutes = requestDefaults.durationMinutes, ...otherDetails } = details;
  const { clinic, sandbox } = await resolveSandbox(log, dependencies.clinic);
  const { sandboxGeneration } = clinic;
  const key = { environment, sandboxGeneration, applicationId, clinicId, idempotencyKey };
  const appointmentId = derivePartnerAppointmentId(key);
  // The animals of a sandbox's fixture have no owner in the log.
  const animal = sandbox ? findFixtureAnimal(sandbox, animalId) : (await load(animalAggregate, animalId)).state;
  const customer = !sandbox && animal ? (await load(customerAggregate, animal.customerId)).state : undefined;
  const animalAccess = await loadAnimalAccess(dependencies, animalId, customer);
  const fields = { ...requestDefaults, ...otherDetails, durationMinutes, animalId, notes };
  const appointment = { ...fields, appointmentId, clinicId, applicationId, sandboxGeneration };
  const permittedBranchIds = dependencies.installation.branchIds;
  const decideWithPlace = (place: object) =>
    requests.requestAppointment(
      { ...appointment, ...place },
      { clinic, animal, customer, animalAccess, permittedBranchIds, now },
    );
  const decide = decideWithPlace({});
  const earlierResult = recentRequests.get(appointmentId);
  if (earlierResult?.initialState) return { ...earlierResult, events: decide(earlierResult.initialState) };
  const booking = { ...appointment, resourceId, resourceType };
  const commandResult = await (resourceId === undefined && resourceType === undefined
    ? handle(log, appointmentAggregate, appointmentId, decide, { ...context, isExpectedNew: true })
    : bookAppointment({ ...dependencies, clinic, sandbox }, booking, decideWithPlace, context));
  // Memory keeps neither notes nor their hash, because they may be erased.
  const { initialState, initialRevision, statePosition } = commandResult;
  if (notes === null) recentRequests.set(appointmentId, { initialState, initialRevision, events: [], statePosition });
  return commandResult;
}

/**
 * Loads the application's access to an animal. If the installation does not cover all animals, the access comes from a
 * link. A link does not count if the owner is erased.
 */
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

/**
 * @throws {ApiError} 422 if the body or a header is invalid, or if fields of the body contradict each other or a header
 */
function readCreateRequest(ctx: WriteContext): CreateRequest {
  const { body, idempotencyKey } = parseIdempotentRequest(ctx, appointmentRequest, 422);
  const { notes = null, ...fields } = body;
  if (ctx.state.branchId !== null && ctx.state.branchId !== body.branchId) {
    const details = [{ path: "branchId", message: "must equal the branch header" }];
    throw new ApiError(422, "validation_failed", { details });
  }
  if (body.resourceId !== undefined && body.resourceType !== undefined) {
    const details = [{ path: "resourceType", message: "cannot be combined with resourceId" }];
    throw new ApiError(422, "validation_failed", { details });
  }
  return { ...body, idempotencyKey, ...hashInput({ reason: null, notes, ...fields }) };
}
