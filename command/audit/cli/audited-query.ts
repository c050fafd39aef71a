import type { EventStoreDBClient } from "@eventstore/db-client";
import type { z } from "zod";
import { InputError } from "../../../shared/command-line/failure.ts";
import { requireOperator } from "../../../shared/command-line/operator.ts";
import { formatProblems, toOptionName, toOptionProblems } from "../../../shared/command-line/option.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import type { AuditAction } from "../../../shared/domain/events/audit.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { createOperatorContext, withEventLog } from "../../handling/operator.ts";
import { recordAccess } from "../access/record-access.ts";
import { AuditIndex } from "../index/audit-index.ts";

export interface CommandOptions {
  actor?: string | undefined;
  json: boolean;
  [field: string]: unknown;
}

/** Query field of each command-line option whose name differs from the name of the field. */
const FIELD_BY_OPTION: Record<string, string> = { doneBy: "actor" };
export const OPTION_BY_FIELD: Record<string, string> = { actor: "doneBy" };

/**
 * Validates the options of a command with the schema of a query.
 *
 * @throws {InputError} that names the invalid options
 */
export function readQuery<Schema extends z.ZodType>(
  schema: Schema,
  options: Record<string, unknown>,
): z.output<Schema> {
  const fields = Object.fromEntries(
    Object.entries(options).map(([option, value]) => [FIELD_BY_OPTION[option] ?? option, value]),
  );
  const parseResult = schema.safeParse(fields);
  if (parseResult.success) return parseResult.data;
  // A problem that concerns several options has an empty field name.
  const getOptionName = (field: string) => (field === "" ? "" : toOptionName(OPTION_BY_FIELD[field] ?? field));
  throw new InputError(formatProblems(toOptionProblems(parseResult.error, fields), getOptionName).trim());
}

/**
 * Records an access in the event log and then runs the query.
 *
 * @param access.query parameters of the query, which are recorded with the access
 * @throws {LogUnavailableError} if the query cannot read the event log, or if the access cannot be recorded. If the
 *   access cannot be recorded, the query does not run.
 */
export function withAuditedAccess<Result>(
  terminal: Terminal,
  access: { actor: string | undefined; action: AuditAction; query: Record<string, unknown> },
  runQuery: (dependencies: {
    log: EventLog;
    client: EventStoreDBClient;
    /** Index of the log. Its first use needs DATABASE_URL. */
    index: AuditIndex;
    dataKeys: DataKeys;
    context: CommandContext;
    accessId: string;
  }) => Promise<Result>,
): Promise<Result> {
  const context = createOperatorContext(requireOperator(terminal.env, access.actor), Date.now());
  return withEventLog(terminal.env, async (log, client, dataKeys, openPool) => {
    const { action, query } = access;
    const accessId = await recordAccess(log, { auditorId: null, action, query }, context);
    return runQuery({ log, client, index: new AuditIndex(openPool), dataKeys, context, accessId });
  });
}
