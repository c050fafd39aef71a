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

/** Options that say how to answer, not what is asked. */
export interface HowToAnswer {
  actor?: string;
  json?: boolean;
}

/** Options that mean a field of another name. */
const FIELD_OF: Record<string, string> = { doneBy: "actor" };
const OPTION_OF: Record<string, string> = { actor: "doneBy" };

/**
 * Reads what a command line asks, by the schema that the service has for it.
 *
 * @throws {InputError} which names the options
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
  // What is wrong with the whole names no option.
  const nameOf = (field: string) => (field === "" ? "" : optionName(OPTION_OF[field] ?? field));
  throw new InputError(problemsLine(problemsOf(checked.error, fields), nameOf).trim());
}

/**
 * Does a piece of work on the log that shows what is recorded: that somebody looks is recorded first.
 *
 * @param asked what is shown; for the record
 * @throws {LogUnavailable} also where the access cannot be recorded: then nothing is shown
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

/** Nobody is bounded at the command line: whoever reaches the log reaches all of it. */
export const everythingIsVisible = () => true;
