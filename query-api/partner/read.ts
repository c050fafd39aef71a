import type { z } from "zod";
import { uuid } from "../../shared/domain/events/fields.ts";
import { type ClinicState, hasClinic, type PartnerState } from "../../shared/partner-api/access.ts";
import type { PartnerRefusals } from "../../shared/partner-api/error-codes.ts";
import type { PartnerReadId } from "../../shared/partner-api/writes.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import type { ParameterValues, QueryParameters } from "../http/parameters.ts";
import type { QueryState, Statement } from "../http/read.ts";
import type { CursorPosition } from "./cursor.ts";
import type { Gap } from "./feed-gaps.ts";

export interface PartnerRequest<Declared extends QueryParameters = QueryParameters> {
  state: ClinicState & QueryState;
  pathParams: Readonly<Record<string, string>>;
  parameters: ParameterValues<Declared>;
  /** Undefined for the first page, and for operations without pages. */
  cursor: CursorPosition | undefined;
  /** Last wait of the request; undefined before the first wait. */
  lastWait: WaitForEvent | undefined;
  /** Runs a statement before the request's deadline. */
  readRow<Row extends object>(statement: Statement, values: readonly unknown[]): Promise<Row>;
  /** Brand in header names, as in `X-<brand>-Clinic-ID`. */
  brand: string;
}

/**
 * Declaration of a read operation of the partner API. The method, path and scope are in `partnerOperations`, under the
 * same operation id.
 */
export interface PartnerRead<Declared extends QueryParameters = QueryParameters> {
  operationId: PartnerReadId;
  description: string;
  parameters?: Declared;
  /** If true, the operation has the query parameter `cursor`. */
  isPaged?: true;
  response: z.ZodType;
  /** Error codes of refusals, with their HTTP status. */
  refusals: PartnerRefusals;
  /**
   * SQL that returns one row with the columns of `ResponseRow`. `refusal` is an error code from `refusals`. `body` does
   * not contain the member `ok`. The SQL must restrict every table to the clinic.
   */
  sql: string;
  /** Replaces SQL and parameters for some requests. */
  alternative?: ReadAlternative;
  getSqlParameters(request: PartnerRequest<Declared>): readonly unknown[] | Promise<readonly unknown[]>;
  /** Completes the body that the SQL returned. Absent if the SQL returns the complete body. */
  completeBody?(body: string, request: PartnerRequest<Declared>): string;
  /**
   * Returns the next wait for an event, after which the request reads again. Returns undefined if the request need not
   * wait. Absent if the operation never waits. An operation that waits must declare the refusal
   * `too_many_waiting_requests`.
   */
  findWait?(body: string, request: PartnerRequest<Declared>): WaitForEvent | undefined;
}

/** SQL of a read for certain requests. */
export interface ReadAlternative extends Pick<PartnerRead, "sql" | "getSqlParameters" | "completeBody"> {
  appliesTo(parameters: PartnerRequest["parameters"]): boolean;
}

export interface WaitForEvent {
  /** Position of the read models at which the SQL has found no event. */
  position: bigint;
  /** Gaps to use in the next read instead of the cursor's gaps. */
  gaps: readonly Gap[];
  timeoutMs: number;
}

/** Returns an id of the path in lower case, or null if it is not a UUID. Null matches no row. */
export function parsePathId(text: string | undefined): string | null {
  return uuid.safeParse(text).data ?? null;
}

export function definePartnerRead<const Declared extends QueryParameters>(
  partnerRead: PartnerRead<Declared>,
): PartnerRead<Declared> {
  return partnerRead;
}

/** Returns the clinic's id if the request concerns a clinic, and otherwise the application's id. */
export function getOwnerId(state: PartnerState): string {
  return hasClinic(state) ? state.clinicId : state.applicationId;
}

/** Joins the endpoint `e` of the path if it belongs to the caller. $1 to $4: values of {@link getEndpointKey}. */
export const ENDPOINT_JOIN_SQL = `LEFT JOIN ${READ_MODEL_SCHEMA}.webhook_endpoint e ON e.endpoint_id = $4::uuid
      AND e.owner_id = $1::uuid AND e.application_id = $2::uuid AND e.environment = $3`;

export function getEndpointKey({ state, pathParams }: PartnerRequest): (string | null)[] {
  return [getOwnerId(state), state.applicationId, state.environment, parsePathId(pathParams.endpointId)];
}

/** Returns the access that the caller's installation grants; undefined if the request concerns the application. */
export function findInstallation(state: PartnerState): ClinicState["installation"] | undefined {
  return hasClinic(state) ? state.installation : undefined;
}

/**
 * Returns an SQL condition that is true if the installation covers the branch and the branch header allows it.
 * $2: branches of the installation, null for all. $3: branch header, null if absent.
 */
export function buildIsBranchVisibleSql(column: string): string {
  return `(($2::uuid[] IS NULL OR ${column} = ANY ($2::uuid[])) AND ($3::uuid IS NULL OR ${column} = $3::uuid))`;
}
