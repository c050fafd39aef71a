import type pg from "pg";
import type { TimeSpan } from "../../shared/domain/scheduling/occupancy.ts";
import { createUnavailableError } from "../../shared/http/api-error.ts";
import {
  buildClosuresSql,
  buildSearchedResourcesSql,
  closures,
  type ListedResource,
  searchedResources,
} from "../../shared/partner-api/slot-search.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { areReadModelsMissing } from "../../shared/runtime/failures.ts";

/** Branch and time of a booking. Times are RFC 3339 date-times. */
interface BookingTime {
  clinicId: string;
  branchId: string;
  startsAt: string;
  endsAt: string;
  now: string;
}

/**
 * Reads the places of a branch from the read models. Both functions throw an {@link ApiError} 503
 * `data_source_unavailable` if the database has no filled read models of this release, and the error of the query if
 * Postgres is unavailable.
 */
export interface SlotSearch {
  /** Finds the active resources of a type, with their rules and places at the time of the booking. */
  findResources(search: BookingTime & { resourceType: string }): Promise<ListedResource[]>;
  /** Finds the holds of the whole branch at the time of the booking. */
  findClosures(search: BookingTime): Promise<TimeSpan[]>;
}

const windowSql = { from: "$3::timestamptz", to: "$4::timestamptz", now: "$5::timestamptz" };

const toStatementText = (sql: string) => `SELECT c.filled, ${sql} AS result FROM ${READ_MODEL_SCHEMA}.checkpoint c`;

const resourcesText = toStatementText(
  buildSearchedResourcesSql("r.clinic_id = $1::uuid AND r.branch_id = $2::uuid AND r.resource_type = $6", windowSql),
);
const closuresText = toStatementText(buildClosuresSql({ clinicId: "$1::uuid", branchId: "$2::uuid", ...windowSql }));

export function createSlotSearch(pool: pg.Pool): SlotSearch {
  async function query(name: string, text: string, values: string[]): Promise<unknown> {
    type Result = { filled: boolean; result: unknown };
    const { rows } = await pool.query<Result>({ name, text, values }).catch((error: unknown) => {
      throw areReadModelsMissing(error) ? createUnavailableError("data_source_unavailable", error) : error;
    });
    if (!rows[0]?.filled)
      throw createUnavailableError("data_source_unavailable", new Error("The read models are not filled yet."));
    return rows[0].result;
  }
  const toValues = ({ clinicId, branchId, startsAt, endsAt, now }: BookingTime) => [
    clinicId,
    branchId,
    startsAt,
    endsAt,
    now,
  ];
  return {
    findResources: async (search) =>
      searchedResources.parse(
        await query("bookable resources", resourcesText, [...toValues(search), search.resourceType]),
      ),
    findClosures: async (search) => closures.parse(await query("closures", closuresText, toValues(search))),
  };
}
