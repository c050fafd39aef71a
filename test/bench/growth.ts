/**
 * Measures how the cost of each read grows with a clinic's history. Compares a clinic with a short history and a clinic
 * with a long history of appointments and webhook deliveries. Both have the same number of future appointments. The
 * cost is the number of buffers (8 KiB pages) that a statement touches, so it does not depend on the machine.
 *
 *     npm run bench -- growth
 */
import pg from "pg";
import { partnerReads } from "../../query-api/partner/reads.ts";
import { buildAuthorizedSql, requirements } from "../../query-api/portal/authorization.ts";
import { createPortalOperations } from "../../query-api/portal/operations.ts";
import { openClinic } from "../support/clinics.ts";
import { createReadModelDatabase } from "../support/read-models.ts";
import { mochaGlobalTeardown } from "../support/stack.ts";
import { fillClinic } from "./clinic-history.ts";
import {
  type BenchEndpoint,
  createBenchEndpoint,
  createDeliveryQueries,
  fillDeliveries,
  usualQuery,
} from "./delivery-history.ts";
import { printRow } from "./report.ts";

const SHORT_HISTORY_LENGTH = 1_000;
const LONG_HISTORY_LENGTH = 500_000;
const DAY_MS = 86_400_000;

/** Number of executions after which Postgres may use a generic plan for a prepared statement. */
const WARM_UP_RUNS = 8;

interface Cost {
  bufferCount: number;
  milliseconds: number;
}

interface Statement {
  name: string;
  text: string;
  values: readonly unknown[];
}

try {
  const shortCosts = await measureCosts(SHORT_HISTORY_LENGTH);
  const longCosts = await measureCosts(LONG_HISTORY_LENGTH);
  const highestRatios = new Map<string, { ratio: number; name: string }>();
  for (const [name, shortCost] of shortCosts) {
    const longCost = longCosts.get(name) as Cost;
    const ratio = longCost.bufferCount / shortCost.bufferCount;
    const recordsText = name.startsWith("listWebhookDeliveries") ? "deliveries" : "appointments";
    if (ratio > (highestRatios.get(recordsText)?.ratio ?? 0)) highestRatios.set(recordsText, { ratio, name });
    const historyText = `${SHORT_HISTORY_LENGTH} and ${LONG_HISTORY_LENGTH} ${recordsText}`;
    const buffersText = `${shortCost.bufferCount} and ${longCost.bufferCount} buffers`;
    const timesText = `${shortCost.milliseconds.toFixed(2)} and ${longCost.milliseconds.toFixed(2)} ms`;
    const note = `${historyText}: ${buffersText} (${ratio.toFixed(2)} times as many), ${timesText}`;
    printRow({ name, note, isDetail: true });
  }
  for (const [recordsText, { ratio, name }] of highestRatios)
    printRow({
      name: `${LONG_HISTORY_LENGTH} instead of ${SHORT_HISTORY_LENGTH} ${recordsText}`,
      note: `at most ${ratio.toFixed(2)} times as many buffers (${name})`,
    });
} finally {
  await mochaGlobalTeardown();
}

/** Measures every read in a new database with the given number of past appointments and successful deliveries. */
async function measureCosts(appointmentCount: number): Promise<Map<string, Cost>> {
  const database = await createReadModelDatabase();
  const reader = new pg.Client({ connectionString: database.urls.query });
  await reader.connect();
  try {
    const ids = await openClinic(database.given);
    await fillClinic(database.admin, ids, appointmentCount);
    const endpoint = await createBenchEndpoint(database.given, ids);
    await fillDeliveries(database.admin, endpoint, appointmentCount);
    const costs = new Map<string, Cost>();
    for await (const statement of createStatements({ ...ids, endpoint }))
      costs.set(statement.name, await measureCost(reader, statement));
    return costs;
  } finally {
    await reader.end();
    await database.close();
  }
}

/** Yields the statements of all portal reads and of the partner API's paged lists, with typical parameters. */
async function* createStatements({
  clinicId,
  userId,
  endpoint,
}: {
  clinicId: string;
  userId: string;
  endpoint: BenchEndpoint;
}): AsyncIterable<Statement> {
  const now = Date.now();
  const nowText = new Date(now).toISOString();
  const lastWeekRange = {
    from: new Date(now - 9 * DAY_MS).toISOString(),
    to: new Date(now - 2 * DAY_MS).toISOString(),
  };
  const usualParameters = { limit: 50, offset: 0, status: null, includeInactive: true };
  for (const operation of createPortalOperations({ operatorName: "Bench" })) {
    const text = buildAuthorizedSql(requirements[operation.operationId], operation.sql);
    const createStatement = (name: string, parameters: Record<string, unknown>) => ({
      name,
      text,
      values: [
        userId,
        nowText,
        ...(operation.getValues?.({ ...usualParameters, ...parameters }, now, ["Europe/Istanbul"]) ?? []),
      ],
    });
    yield createStatement(operation.operationId, {});
    if ("from" in (operation.parameters ?? {}))
      yield createStatement(`${operation.operationId}, last week`, lastWeekRange);
    if ("offset" in (operation.parameters ?? {}))
      yield createStatement(`${operation.operationId}, offset 50`, { offset: 50 });
  }
  for (const partnerRead of partnerReads) {
    if (!partnerRead.isPaged) continue;
    const state = {
      clinicId,
      branchId: null,
      installation: { branchIds: null, animalAccess: "all" },
      now,
      applicationId: endpoint.applicationId,
      environment: "production",
    };
    const isDeliveryList = partnerRead.operationId === "listWebhookDeliveries";
    for (const { name, parameters, cursor } of isDeliveryList ? createDeliveryQueries() : [usualQuery]) {
      const request = { state, pathParams: endpoint, parameters: { ...usualParameters, ...parameters }, cursor };
      const values = await partnerRead.getSqlParameters(request as never);
      yield { name: `${partnerRead.operationId}${name}`, text: partnerRead.sql, values };
    }
  }
}

/** Executes a prepared statement several times, and then measures one more execution with EXPLAIN. */
async function measureCost(reader: pg.Client, { name, text, values }: Statement): Promise<Cost> {
  const query = { name, text, values: [...values] };
  for (let run = 0; run < WARM_UP_RUNS; run += 1) {
    const { rows } = await reader.query(query);
    if (rows.length !== 1 || rows[0].refusal !== null) throw new Error(`${name}: ${JSON.stringify(rows)}`);
  }
  const literals = values.map((value) =>
    value === null || value === undefined
      ? "NULL"
      : typeof value === "number" || typeof value === "boolean"
        ? String(value)
        : Array.isArray(value)
          ? `ARRAY[${value.map((element) => pg.escapeLiteral(String(element))).join(", ")}]`
          : pg.escapeLiteral(String(value)),
  );
  const { rows } = await reader.query(
    `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE ${pg.escapeIdentifier(name)} (${literals.join(", ")})`,
  );
  const [{ Plan: plan, "Execution Time": milliseconds }] = rows[0]["QUERY PLAN"];
  return { bufferCount: plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], milliseconds };
}
