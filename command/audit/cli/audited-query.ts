import type { EventStoreDBClient } from "@eventstore/db-client";
import type { z } from "zod";
import type { AuditAction } from "../../../shared/domain/events/audit.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { problemsOf } from "../../cli/framework/command.ts";
import { InputError, problemsLine } from "../../cli/framework/failure.ts";
import { operatorContext, withEventLog } from "../../cli/framework/operator.ts";
import { optionName } from "../../cli/framework/run-command.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { recordAccess } from "../access/record-access.ts";
import type { AuditTerminal } from "./terminal.ts";

/** Options that control the output, not the query. */
export interface OutputOptions {
  actor?: string;
  json?: boolean;
}

/** Query fields whose option has another name. */
const FIELD_OF: Record<string, string> = { doneBy: "actor" };
const OPTION_OF: Record<string, string> = { actor: "doneBy" };

/**
 * Reads a query from the command line, with the schema of the service.
 *
 * @throws {InputError} that names the invalid options
 */
export function readQuery<Schema extends z.ZodType>(
  schema: Schema,
  given: Record<string, unknown>,
): z.output<Schema> {
  const fields = Object.fromEntries(
    Object.entries(given).map(([option, value]) => [FIELD_OF[option] ?? option, value]),
  );
  const checked = schema.safeParse(fields);
  if (checked.success) return checked.data;
  // A problem of the whole query has no option name.
  const nameOf = (field: string) => (field === "" ? "" : optionName(OPTION_OF[field] ?? field));
  throw new InputError(problemsLine(problemsOf(checked.error, fields), nameOf).trim());
}

/**
 * Records the access in the event log and then runs the query.
 *
 * @param access.asked the query, as recorded with the access
 * @throws {LogUnavailableError} also if the access cannot be recorded; then nothing is shown
 */
export function withAuditedAccess<Result>(
  terminal: AuditTerminal,
  access: { actor: string | undefined; action: AuditAction; asked: Record<string, unknown> },
  work: (dependencies: {
    log: EventLog;
    client: EventStoreDBClient;
    context: CommandContext;
    accessId: string;
  }) => Promise<Result>,
): Promise<Result> {
  const context = operatorContext(access.actor, Date.now());
  return withEventLog(terminal.env, async (log, client) => {
    const { action, asked } = access;
    const accessId = await recordAccess(log, { auditorId: null, action, asked }, context);
    return work({ log, client, context, accessId });
  });
}

/** The command line has no access limits: anyone who can connect to the log can read all of it. */
export const everythingIsVisible = () => true;
