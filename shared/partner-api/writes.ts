import { z } from "zod";
import { TOKEN_LIFETIME_SECONDS } from "../auth/access-token.ts";
import { endpointWrites } from "./endpoint-writes.ts";
import type { PartnerOperationId, partnerOperations } from "./operations.ts";
import { MAX_EXCHANGES_PER_MINUTE, MAX_RESETS_PER_HOUR, MAX_WRONG_CODES_PER_HOUR } from "./rate-limits.ts";
import { publicAppointment, publicLink, publicSandbox } from "./records.ts";
import {
  animalLinkRequest,
  appointmentMove,
  appointmentRequest,
  appointmentTransition,
  linkWithdrawal,
  sandboxAccess,
  tokenRequest,
} from "./request-bodies.ts";
import {
  clinicStatusErrors,
  type Headers,
  idempotencyKeyHeader,
  ok,
  type PartnerWrite,
  replayedHeader,
} from "./write-declaration.ts";

/** Ids of the operations that the command service serves: all operations except GET. */
export type PartnerWriteId = {
  [Id in PartnerOperationId]: (typeof partnerOperations)[Id]["method"] extends "GET" ? never : Id;
}[PartnerOperationId];

export type PartnerReadId = Exclude<PartnerOperationId, PartnerWriteId>;

const locationHeader: Headers = {
  Location: {
    description: "Path of the appointment, for example `/sandbox/v1/appointments/<id>`.",
    required: true,
    schema: z.string(),
  },
};
const endedLinkResponse = {
  status: 200,
  description: "The link has ended.",
  body: z.strictObject({ ok, link: z.strictObject({ id: z.guid() }) }),
} as const;
const appointmentBody = z.strictObject({ ok, appointment: publicAppointment.schema });
const changedAppointmentResponse = {
  status: 200,
  description: "The appointment after the change.",
  body: appointmentBody,
} as const;
const sandboxAppointmentErrors = {
  ...clinicStatusErrors,
  sandbox_only: 403,
  appointment_not_found: 404,
  fixture_appointment: 409,
  illegal_transition: 409,
  object_deleted: 409,
  validation_failed: 422,
  concurrent_changes: 503,
  data_source_unavailable: 503,
} as const;

/**
 * All operations that change data. The code compiles only if every operation of `partnerOperations` except GET is
 * listed.
 */
export const partnerWrites = {
  exchangeToken: {
    description: `Exchanges an application's credentials for an access token that is valid for 900 seconds. Send JSON, or a form as in RFC 6749 with the same members. A form needs no member \`environment\`, and its credentials can be in an HTTP Basic header instead. If the parameters or credentials are invalid, a JSON request returns 401. A form request returns the status that RFC 6749 defines: 401 for \`invalid_client\`, otherwise 400. Each client id can exchange at most ${MAX_EXCHANGES_PER_MINUTE} tokens per minute from one IP address.`,
    request: tokenRequest,
    formRefusals: { invalid_request: 400, invalid_client: 401, unsupported_grant_type: 400, invalid_scope: 400 },
    successResponse: {
      status: 200,
      description: "The access token.",
      body: z.strictObject({
        access_token: z.string(),
        token_type: z.literal("Bearer"),
        expires_in: z.literal(TOKEN_LIFETIME_SECONDS),
        scope: z.string().meta({ description: "Scopes of the token, separated by spaces." }),
      }),
    },
    refusals: { invalid_request: 401, invalid_client: 401, unsupported_grant_type: 401, invalid_scope: 401 },
  },
  createPartnerAppointment: {
    description:
      "Creates an appointment with status `requested`. With `resourceId` or `resourceType`, it books a free time: the resource is reserved before the response, and the status is `confirmed` if the clinic confirms bookings at once. If the time is taken, the response is 422 `slot_taken`, and a later request with the same key tries again. A repeated request with the same idempotency key returns the first response, as long as your application has access to the branch and the animal.",
    request: appointmentRequest,
    requestHeaders: idempotencyKeyHeader,
    successResponse: {
      status: 201,
      description: "The appointment as it was created.",
      body: appointmentBody,
      headers: { ...replayedHeader, ...locationHeader },
    },
    refusals: {
      ...clinicStatusErrors,
      entitlement_required: 403,
      idempotency_conflict: 409,
      object_deleted: 409,
      validation_failed: 422,
      insufficient_consent: 422,
      slot_taken: 422,
      concurrent_changes: 503,
      data_source_unavailable: 503,
    },
  },
  linkAnimal: {
    description: `Redeems a code with which an animal's owner consents to share the animal with your application. Each code can be redeemed once. Repeating the request returns the same link. After ${MAX_WRONG_CODES_PER_HOUR} wrong codes in an hour, requests of the installation return 429.`,
    request: animalLinkRequest,
    successResponse: {
      status: 201,
      description: "The link to the animal.",
      body: z.strictObject({ ok, link: publicLink.schema }),
    },
    refusals: {
      ...clinicStatusErrors,
      object_deleted: 409,
      validation_failed: 422,
      link_code_invalid: 422,
      concurrent_changes: 503,
      data_source_unavailable: 503,
    },
  },
  endAnimalLink: {
    description:
      "Ends a link, for example because the owner has closed their account with you. Only a new code can link the animal again.",
    successResponse: endedLinkResponse,
    refusals: { animal_link_not_found: 404, object_deleted: 409, concurrent_changes: 503 },
  },
  withdrawSandboxLink: {
    description:
      "Ends a link of your application in its sandbox, as the animal's owner or the clinic can in production. Your application receives `animal_link.withdrawn`.",
    request: linkWithdrawal,
    successResponse: endedLinkResponse,
    refusals: {
      sandbox_only: 403,
      animal_link_not_found: 404,
      object_deleted: 409,
      validation_failed: 422,
      concurrent_changes: 503,
    },
  },
  changeSandboxAccess: {
    description:
      "Changes which branches and animals of its sandbox your application sees, as operator and clinic can in production. Less access is `installation.access_changed`, any other change `installation.approved`. The state of the sandbox always contains all animals. A reset keeps the access.",
    request: sandboxAccess,
    successResponse: {
      status: 200,
      description: "The access after the change.",
      body: z.strictObject({ ok, access: sandboxAccess.extend({ branchIds: z.array(z.guid()).nullable() }) }),
    },
    refusals: {
      ...clinicStatusErrors,
      sandbox_only: 403,
      object_deleted: 409,
      validation_failed: 422,
      concurrent_changes: 503,
    },
  },
  resetSandbox: {
    description: `Resets the sandbox to the fixture data of today (UTC). Deletes existing appointments and their idempotency keys, effective from the next request, ends the links, and keeps webhook endpoints. Two resets on the same day give the same data. An application can reset its sandbox at most ${MAX_RESETS_PER_HOUR} times per hour.`,
    successResponse: {
      status: 200,
      description: "The sandbox after the reset.",
      body: z.strictObject({ ok, sandbox: publicSandbox.schema }),
    },
    refusals: { sandbox_only: 403, object_deleted: 409, concurrent_changes: 503 },
  },
  changeSandboxAppointmentStatus: {
    description:
      "Changes the status of an appointment that your application has created in its sandbox, as the clinic's staff would in production. Your endpoints receive `appointment.updated`. Appointments of the fixture cannot be changed.",
    request: appointmentTransition,
    successResponse: changedAppointmentResponse,
    refusals: sandboxAppointmentErrors,
  },
  rescheduleSandboxAppointment: {
    description:
      "Moves a requested or confirmed appointment that your application has created in its sandbox, as the clinic's staff would in production. Its resources move with it, if their new places are free. Your endpoints receive `appointment.updated`. Appointments of the fixture cannot be changed.",
    request: appointmentMove,
    successResponse: changedAppointmentResponse,
    refusals: { ...sandboxAppointmentErrors, too_many_changes: 409, slot_taken: 422 },
  },
  ...endpointWrites,
} as const satisfies Record<PartnerWriteId, PartnerWrite>;
