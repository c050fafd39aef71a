import type { z } from "zod";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import type { PartnerRefusals } from "../../shared/partner-api/error-codes.ts";
import type { PartnerReadId } from "../../shared/partner-api/writes.ts";
import type { Parameters, ParameterValues } from "../http/parameters.ts";
import type { QueryState } from "../http/read.ts";
import type { CursorPosition } from "./cursor.ts";

/** A partner's request, as a read's values are made from it. */
export interface PartnerRequest<Declared extends Parameters = Parameters> {
  state: ClinicState & QueryState;
  /** Of the path. */
  params: Readonly<Record<string, string>>;
  parameters: ParameterValues<Declared>;
  /** Where the page goes on; undefined for the first, and for reads without pages. */
  after: CursorPosition | undefined;
}

/**
 * A read of the partner API, declared once. Method, path and scope stand in the table that both services share,
 * under its id.
 */
export interface PartnerRead<Declared extends Parameters = Parameters> {
  operationId: PartnerReadId;
  description: string;
  parameters: Declared;
  /** Whether the answer comes in pages, with a `cursor` parameter. */
  paged: boolean;
  /** The whole body of a 200. */
  response: z.ZodType;
  /** What only the data can tell of. */
  refusals: PartnerRefusals;
  /**
   * One row: `refusal`, a code of `refusals` or null, and `body`, one JSON object without `ok`, null where refused.
   * Every table in it is bounded by the clinic.
   */
  sql: string;
  values(request: PartnerRequest<Declared>): readonly unknown[];
}

/** Declares a read with the types of its parameters inferred. */
export function definePartnerRead<const Declared extends Parameters>(
  read: PartnerRead<Declared>,
): PartnerRead<Declared> {
  return read;
}

/** A read as the router and the document handle it, whatever its parameters are. */
export type AnyPartnerRead = Omit<PartnerRead, "values"> & {
  values(
    request: Omit<PartnerRequest, "parameters"> & { parameters: Record<string, unknown> },
  ): readonly unknown[];
};
