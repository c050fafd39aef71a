import type { z } from "zod";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import type { PartnerRefusals } from "../../shared/partner-api/error-codes.ts";
import type { PartnerReadId } from "../../shared/partner-api/writes.ts";
import type { ParameterValues, QueryParameters } from "../http/parameters.ts";
import type { QueryState } from "../http/read.ts";
import type { CursorPosition } from "./cursor.ts";

/** Request data from which a partner read computes the values of its SQL parameters. */
export interface PartnerRequest<Declared extends QueryParameters = QueryParameters> {
  state: ClinicState & QueryState;
  /** Path parameters. */
  params: Readonly<Record<string, string>>;
  parameters: ParameterValues<Declared>;
  /** Position after which the page starts. Undefined for the first page, and for reads without pages. */
  cursor: CursorPosition | undefined;
}

/** Declaration of a partner read. Method, path and scope are in `partnerOperations`, under the same operation id. */
export interface PartnerRead<Declared extends QueryParameters = QueryParameters> {
  operationId: PartnerReadId;
  description: string;
  parameters: Declared;
  /** If true, the list has pages and a `cursor` parameter. */
  paged: boolean;
  /** Schema of the 200 body. */
  response: z.ZodType;
  /** Error codes that the SQL can return, with their HTTP status. */
  refusals: PartnerRefusals;
  /**
   * SQL that returns one row with the columns of `PartnerRow`. `refusal` is a code of `refusals`. `body` is without the
   * member `ok`. The SQL must limit every table to the clinic.
   */
  sql: string;
  values(request: PartnerRequest<Declared>): readonly unknown[];
}

/** Declares a read and infers its parameter types. */
export function definePartnerRead<const Declared extends QueryParameters>(
  read: PartnerRead<Declared>,
): PartnerRead<Declared> {
  return read;
}

/** A partner read with any parameters. The router and the OpenAPI document use this type. */
export type AnyPartnerRead = Omit<PartnerRead, "values"> & {
  values(
    request: Omit<PartnerRequest, "parameters"> & { parameters: Record<string, unknown> },
  ): readonly unknown[];
};
