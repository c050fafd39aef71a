import type { z } from "zod";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import type { PartnerRefusals } from "../../shared/partner-api/error-codes.ts";
import type { PartnerReadId } from "../../shared/partner-api/writes.ts";
import type { Parameters, ParameterValues } from "../http/parameters.ts";
import type { QueryState } from "../http/read.ts";
import type { CursorPosition } from "./cursor.ts";

/** The parts of a partner's request that a read's SQL values depend on. */
export interface PartnerRequest<Declared extends Parameters = Parameters> {
  state: ClinicState & QueryState;
  /** Path parameters. */
  params: Readonly<Record<string, string>>;
  parameters: ParameterValues<Declared>;
  /** Position of the cursor. Undefined for the first page, and for reads without pages. */
  after: CursorPosition | undefined;
}

/**
 * Declaration of a partner read. Method, path and scope are in `partnerOperations`, under the same id.
 */
export interface PartnerRead<Declared extends Parameters = Parameters> {
  operationId: PartnerReadId;
  description: string;
  parameters: Declared;
  /** If true, the list has pages and a `cursor` parameter. */
  paged: boolean;
  /** Schema of the 200 body. */
  response: z.ZodType;
  /** Errors that the SQL can return. */
  refusals: PartnerRefusals;
  /**
   * SQL that returns one row. `refusal` is a code of `refusals` or null. `body` is a JSON object without `ok`, or
   * null if refused. Every table must be limited to the clinic.
   */
  sql: string;
  values(request: PartnerRequest<Declared>): readonly unknown[];
}

/** Declares a read and infers its parameter types. */
export function definePartnerRead<const Declared extends Parameters>(
  read: PartnerRead<Declared>,
): PartnerRead<Declared> {
  return read;
}

/** A read with any parameters, as the router and the document use it. */
export type AnyPartnerRead = Omit<PartnerRead, "values"> & {
  values(
    request: Omit<PartnerRequest, "parameters"> & { parameters: Record<string, unknown> },
  ): readonly unknown[];
};
