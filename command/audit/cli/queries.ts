import type { EventStoreDBClient } from "@eventstore/db-client";
import { z } from "zod";
import { type Command, defineCommand } from "../../../shared/command-line/command-line.ts";
import { InputError } from "../../../shared/command-line/failure.ts";
import { suggestNext } from "../../../shared/command-line/format-command-line.ts";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import { actorOption, requireOperator } from "../../../shared/command-line/operator.ts";
import {
  formatProblems,
  isOptional,
  type Options,
  option,
  toOptionName,
  toOptionProblems,
} from "../../../shared/command-line/option.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import type { AuditAction } from "../../../shared/domain/events/audit.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { createOperatorContext, withEventLog } from "../../handling/operator.ts";
import { accessesQuery, type ClinicAccess } from "../access/list-accesses.ts";
import { recordAccess } from "../access/record-access.ts";
import { clinicStateQuery } from "../clinic/clinic-state.ts";
import { READER_KINDS, readersQuery } from "../clinic/list-readers.ts";
import { AuditIndex } from "../index/audit-index.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import type { AuditQuery, ItemStream } from "../queries/audit-query.ts";
import { eventsQuery } from "../queries/list-events.ts";
import { type ReplayStep, replayQuery } from "../state/replay.ts";
import { diffQuery, type StateDiff, type StreamState, stateQuery } from "../state/state-at.ts";
import { EVENT_HEADER, formatAccess, formatEvent, formatResult, formatStep } from "./format.ts";

const EXAMPLE_STREAM = "appointment-5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002";
export const EXAMPLE_CLINIC_ID = "0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const POINT_HELP = "a revision, position:<n>, a time, `start` or `end`";

/** Placeholders and help texts of the command-line options, by the name of the query field. */
const FIELD_OPTIONS: Record<string, [placeholder: string, help: string]> = {
  stream: ["name", "one stream, such as appointment-<id>"],
  appointment: ["uuid", "an appointment and its queue ticket, and their consequences"],
  customer: ["uuid", "a customer, and the customer's animals and appointments"],
  animal: ["uuid", "an animal and its appointments"],
  clinic: ["uuid", "a clinic"],
  application: ["uuid", "a partner application: credentials, installations, endpoints, appointments, replays"],
  correlation: ["uuid", "the request with this correlation id, and its consequences"],
  auditor: ["uuid", "an auditor, including all recorded accesses"],
  from: ["date or time", "at or after this time"],
  to: ["date or time", "before this time"],
  at: ["date or time", ""],
  day: ["date", "with --clinic: on this day in the clinic's time zone, YYYY-MM-DD"],
  by: [
    "basis",
    "which time of an event to use: occurred (reported by the writer) or stored (recorded by the log); default: occurred",
  ],
  type: ["names", "only these event types, separated by commas"],
  actor: ["actor", "only events of this actor: an id, or type:id such as operator:ada"],
  order: ["order", "oldest or newest first; default: oldest"],
  after: ["position", "continue after this log position"],
  limit: ["number", "maximum number of lines"],
};

/**
 * Creates the command-line options for the fields of a query. The options accept any text. The query validates the
 * values later, and the original texts are recorded with the access.
 *
 * @param help help texts by field name, which replace the default help texts
 */
export function toQueryOptions(schema: z.ZodObject, help: Readonly<Record<string, string>> = {}): Options {
  // A query of one stream takes points in its history in place of times.
  const hasPoints = "stream" in schema.shape && !isOptional(schema.shape.stream as z.ZodType);
  const options = Object.entries(schema.shape).map(([field, fieldSchema]) => {
    const [defaultPlaceholder, defaultHelp] = FIELD_OPTIONS[field] ?? ["text", ""];
    const placeholder = hasPoints && defaultPlaceholder === "date or time" ? "point" : defaultPlaceholder;
    const text = help[field] ?? defaultHelp;
    const isRequired = !isOptional(fieldSchema as z.ZodType);
    if (field === "stream" && isRequired) return [field, option.argument(z.string(), text)] as const;
    const valueSchema = isRequired ? z.string() : z.string().optional();
    return [OPTION_BY_FIELD[field] ?? field, option.text(valueSchema, text, placeholder)] as const;
  });
  return Object.fromEntries(options);
}

export interface CommandOptions {
  actor?: string | undefined;
  json: boolean;
  [field: string]: unknown;
}

/** Maps the names of command-line options to the names of query fields, if these names differ. */
const FIELD_BY_OPTION: Record<string, string> = { doneBy: "actor" };
const OPTION_BY_FIELD: Record<string, string> = { actor: "doneBy" };

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
    client: EventStoreDBClient;
    /** Audit index. The setting DATABASE_URL is required only if the index is used. */
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
    return runQuery({ client, index: new AuditIndex(openPool), dataKeys, context, accessId });
  });
}

interface QueryCommand extends Pick<Command, "summary" | "example"> {
  query: AuditQuery<z.ZodObject, object>;
  /** Help texts of options that differ from those of other commands. */
  help?: Record<string, string>;
  /** Returns a suggested next `clinic audit` command. `item` is the result, or the last item of a list. */
  next: (item: never, options: CommandOptions) => string | undefined;
  /** Format of a list's items. Undefined if the query returns a single result. */
  list?: ListFormat;
}

interface ListFormat {
  noun: string;
  header?: string;
  format: (item: never, terminal: Terminal) => string;
  /** If true, a key press prints the next item. `--all` prints all items at once. */
  isStepped?: boolean;
}

/** Defines a command that records the access, runs a query and prints its result. */
function defineQueryCommand(name: string, { query, help, next, list, summary, example }: QueryCommand): Command {
  const all = list?.isStepped ? { all: option.flag("show all events without waiting for a key") } : {};
  const ownOptions = { ...all, actor: actorOption, json: option.flag("print one JSON object per line") };
  return defineCommand({
    ...{ name, summary, example },
    options: { ...toQueryOptions(query.schema, help), ...ownOptions },
    run: (values, terminal) => {
      const options = values as CommandOptions;
      return runQuery(query, options, terminal, async (result) => {
        const last = list ? await printList(result as ItemStream<never>, options, list, terminal) : result;
        if (!list) await terminal.writeOutput(options.json ? JSON.stringify(result) : formatResult(result, terminal));
        const words = last && next(last as never, options);
        if (words !== undefined) await suggestNext(terminal, options.json, `audit ${words}`);
      });
    },
  });
}

/** Records the access, runs the query, and prints its result. */
export async function runQuery<Schema extends z.ZodType, Result>(
  { action, schema, run }: AuditQuery<Schema, Result>,
  { actor, json: _json, all: _all, ...options }: CommandOptions,
  terminal: Terminal,
  print: (result: Result) => Promise<void>,
): Promise<void> {
  const query = readQuery(schema, options);
  await withAuditedAccess(terminal, { actor, action, query: options }, async ({ client, index, dataKeys }) => {
    await print(await run(query, { client, index, dataKeys, permittedClinicIds: null }));
  });
}

/**
 * Prints the items of a list as they arrive.
 *
 * @returns the last item; undefined if the list is empty or the user has quit
 */
async function printList<Item extends object>(
  items: ItemStream<Item>,
  { all, json }: CommandOptions,
  { noun, header, format, isStepped = false }: ListFormat,
  terminal: Terminal,
): Promise<Item | undefined> {
  const readKey = isStepped && !all && !json ? terminal.readKey : undefined;
  let count = 0;
  let last: Item | undefined;
  if (!json && header !== undefined && terminal.columns === undefined) await terminal.writeOutput(header);
  for await (const item of items) {
    if (count > 0 && (await readKey?.()) === "end") return undefined;
    [count, last] = [count + 1, item];
    await terminal.writeOutput(json ? JSON.stringify(item) : format(item as never, terminal));
    if (readKey && count === 1) await terminal.writeError("(Enter: next event; q: quit)");
  }
  if (!json) await terminal.writeError(formatCount(count, noun));
  return last;
}

export const queryCommands: Command[] = [
  defineQueryCommand("events", {
    query: eventsQuery,
    summary: "Lists the events of a stream, or all events related to one object, such as an appointment or a clinic.",
    example: `--appointment ${EXAMPLE_STREAM.slice(12)} --actor ada`,
    list: { noun: "event", header: EVENT_HEADER, format: formatEvent },
    next: ({ stream }: AuditEvent) => `replay ${stream}`,
  }),
  defineQueryCommand("accesses", {
    query: accessesQuery,
    summary:
      "Lists who read or exported the records of a clinic, a customer or another object. A `possible` access may have concerned only other records.",
    example: `--clinic ${EXAMPLE_CLINIC_ID} --from 2026-05-01T00:00:00Z`,
    list: { noun: "access", format: formatAccess },
    next: ({ actor }: ClinicAccess) => (actor?.type === "auditor" ? `accesses --auditor ${actor.id}` : undefined),
  }),
  defineQueryCommand("readers", {
    query: readersQuery,
    summary:
      "Lists who could read the records of a clinic, a customer or an animal, from when to when, and the recorded accesses.",
    example: `--animal ${EXAMPLE_STREAM.slice(12)} --from 2026-05-01T00:00:00Z --to 2026-05-08T00:00:00Z`,
    next: (_, subject) => {
      const kind = READER_KINDS.find((name) => subject[name] !== undefined) ?? "clinic";
      return `events --${kind} ${subject[kind]}`;
    },
  }),
  defineQueryCommand("clinic-state", {
    query: clinicStateQuery,
    summary:
      "Shows a clinic at a time: branches, staff with access, resources, installations, and what has changed since.",
    help: { at: "a time; default: now" },
    example: `--clinic ${EXAMPLE_CLINIC_ID} --at '2026-11-28 10:00'`,
    next: (_, { clinic }) => `readers --clinic ${clinic}`,
  }),
  defineQueryCommand("as-of", {
    query: stateQuery,
    summary: "Shows the state of a stream at a point in its history, computed with the same code as in the service.",
    help: { at: `${POINT_HELP}; default: end` },
    example: `${EXAMPLE_STREAM} --at 2026-05-04T12:00:00Z`,
    next: ({ stream }: StreamState) => `diff ${stream}`,
  }),
  defineQueryCommand("diff", {
    query: diffQuery,
    summary: "Shows the fields that differ between two points in the history of a stream.",
    help: { from: `${POINT_HELP}; default: start`, to: "a point in the same form as --from; default: end" },
    example: `${EXAMPLE_STREAM} --from 0 --to end`,
    next: ({ stream }: StateDiff) => `replay ${stream}`,
  }),
  defineQueryCommand("replay", {
    query: replayQuery,
    summary: "Shows the events of a stream one by one, with their changes. Press Enter for the next event, q to quit.",
    example: EXAMPLE_STREAM,
    list: { noun: "event", format: formatStep, isStepped: true },
    next: ({ event }: ReplayStep) => `as-of ${event.stream}`,
  }),
];
