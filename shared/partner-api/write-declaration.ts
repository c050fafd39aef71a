import { z } from "zod";
import type { PartnerRefusals } from "./error-codes.ts";
import { idempotencyKey } from "./request-bodies.ts";

interface PartnerHeader {
  description: string;
  required: boolean;
  schema: z.ZodType;
}

export type Headers = Readonly<Record<string, PartnerHeader>>;

/** Declaration of the request, response and errors of an operation that changes data. */
export interface PartnerWrite {
  description: string;
  /** Schema of the JSON body; undefined if the operation reads no body. */
  request?: z.ZodType;
  /** If true, a request may have no body. */
  isBodyOptional?: true;
  /** Errors of requests with a form instead of JSON; undefined if the operation accepts no form. */
  formRefusals?: PartnerRefusals;
  requestHeaders?: Headers;
  successResponse: { status: 200 | 201 | 202; description: string; body: z.ZodType; headers?: Headers };
  /** Errors of this operation, in addition to the errors of access check, rate limit and body parsing. */
  refusals: PartnerRefusals;
}

export const ok = z.literal(true);

export const idempotencyKeyHeader = {
  "Idempotency-Key": {
    description:
      "Key of your choice that identifies this request: 8 to 128 printable ASCII characters. Keys never expire.",
    required: true,
    schema: idempotencyKey,
  },
} satisfies Headers;

export const replayedHeader: Headers = {
  "Idempotent-Replayed": {
    description:
      "`true` if this response repeats the response to an earlier request with the same key. Otherwise absent.",
    required: false,
    schema: z.literal("true"),
  },
};

export const clinicStatusErrors = { clinic_not_operational: 403 } as const;
