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
import { escapeControlCharacters, type Terminal } from "../../../shared/command-line/terminal.ts";
import type { AuditAction } from "../../../shared/domain/events/audit.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { createOperatorContext, withEventLog } from "../../handling/operator.ts";
import { accessesQuery, type ClinicAccess } from "../access/list-accesses.ts";
import { recordAccess } from "../access/record-access.ts";
import { type ClinicState, clinicStateQuery } from "../clinic/clinic-state.ts";
import { type Reader, type Readers, readersQuery } from "../clinic/list-readers.ts";
import { AuditIndex } from "../index/audit-index.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import type { AuditQuery, ItemStream } from "../queries/audit-query.ts";
import { eventsQuery } from "../queries/list-events.ts";
import type { Change } from "../state/changes.ts";
import { type ReplayStep, replayQuery } from "../state/replay.ts";
import { diffQuery, type StateDiff, type StreamState, stateQuery } from "../state/state-at.ts";
import { createEventPrinter, formatActor } from "./table.ts";

const EXAMPLE_STREAM = "appointment-5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002";
export const EXAMPLE_CLINIC_ID = "0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const POINT_HELP = "a revision, position:<n>, a time, `start` or `end`";

/** Placeholder and help text of the option for each field of a query. */
const FIELD_OPTIONS: Record<string, [placeholder: string, help: string]> = {
  stream: ["name", "one stream, such as appointment-<id>"],
  appointment: ["uuid", "an appointment and its queue ticket, and their consequences"],
  customer: ["uuid", "a customer, and the customer's animals and appointments"],
  animal: ["uuid", "an animal and its appointments"],
  clinic: ["uuid", "a clinic"],
  application: ["uuid", "a partner application: credentials, installations, endpoints, appointments, replays"],
  correlation: ["uuid", "the request with this correlation id, and its consequences"],
  auditor: ["uuid", "an auditor, including all recorded accesses"],
  from: ["time", "at or after this time"],
  to: ["time", "before this time"],
  at: ["time", ""],
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
 * Creates the options for the fields of a query. The options accept any text, because the query validates the texts
 * that are recorded with the access.
 *
 * @param help help texts that differ from those of other commands
 */
export function toQueryOptions(schema: z.ZodObject, help: Readonly<Record<string, string>> = {}): Options {
  const options = Object.entries(schema.shape).map(([field, fieldSchema]) => {
    const [placeholder, defaultHelp] = FIELD_OPTIONS[field] ?? ["text", ""];
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

/** Query field of each command-line option whose name differs from the name of the field. */
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

type QueryDeclaration<Schema extends z.ZodObject, Result> = Pick<Command, "summary" | "example"> & {
  query: AuditQuery<Schema, Result>;
  help?: Record<string, string>;
  /** Options that are no fields of the query. */
  otherOptions?: Options;
  print(result: Result, options: CommandOptions, terminal: Terminal): Promise<void>;
};

/** Defines a command that records the access, runs a query and prints its result. */
function defineQueryCommand<Schema extends z.ZodObject, Result>(
  name: string,
  { query, help, otherOptions = {}, print, summary, example }: QueryDeclaration<Schema, Result>,
): Command {
  const ownOptions = { actor: actorOption, json: option.flag("print one JSON object per line") };
  return defineCommand({
    ...{ name, summary, example },
    options: { ...toQueryOptions(query.schema, help), ...otherOptions, ...ownOptions },
    run: (values, terminal) => {
      const options = values as CommandOptions;
      return runQuery(query, options, terminal, (result) => print(result, options, terminal));
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

export const queryCommands: Command[] = [
  defineQueryCommand("events", {
    query: eventsQuery,
    summary: "Lists the events of a stream, or all events related to one object, such as an appointment or a clinic.",
    example: `--appointment ${EXAMPLE_STREAM.slice(12)} --actor ada`,
    print: printEvents,
  }),
  defineQueryCommand("accesses", {
    query: accessesQuery,
    summary:
      "Lists who read or exported the records of a clinic, a customer or another object. A `possible` access may have concerned only other records.",
    example: `--clinic ${EXAMPLE_CLINIC_ID} --from 2026-05-01T00:00:00Z`,
    print: printAccesses,
  }),
  defineQueryCommand("readers", {
    query: readersQuery,
    summary:
      "Lists who could read the records of a clinic, a customer or an animal, from when to when, and the recorded accesses.",
    example: `--animal ${EXAMPLE_STREAM.slice(12)} --from 2026-05-01T00:00:00Z --to 2026-05-08T00:00:00Z`,
    async print(readers, { json, ...subject }, terminal) {
      await terminal.writeOutput(json ? JSON.stringify(readers) : formatReaders(readers));
      const kind = ["clinic", "customer", "animal"].find((name) => subject[name] !== undefined);
      await suggestNext(terminal, json, `audit events --${kind} ${subject[kind ?? ""]}`);
    },
  }),
  defineQueryCommand("clinic-state", {
    query: clinicStateQuery,
    summary:
      "Shows a clinic at a time: branches, staff with access, resources, installations, and what has changed since.",
    help: { at: "a time; default: now" },
    example: `--clinic ${EXAMPLE_CLINIC_ID} --at '2026-11-28 10:00'`,
    async print(state, { json, clinic }, terminal) {
      await terminal.writeOutput(json ? JSON.stringify(state) : formatClinicState(state));
      await suggestNext(terminal, json, `audit readers --clinic ${clinic}`);
    },
  }),
  defineQueryCommand("as-of", {
    query: stateQuery,
    summary: "Shows the state of a stream at a point in its history, computed with the same code as in the service.",
    help: { at: `${POINT_HELP}; default: end` },
    example: `${EXAMPLE_STREAM} --at 2026-05-04T12:00:00Z`,
    async print(state, { json }, terminal) {
      await terminal.writeOutput(json ? JSON.stringify(state) : formatState(state));
      await suggestNext(terminal, json, `audit diff ${state.stream}`);
    },
  }),
  defineQueryCommand("diff", {
    query: diffQuery,
    summary: "Shows the fields that differ between two points in the history of a stream.",
    help: { from: `${POINT_HELP}; default: start`, to: "a point in the same form as --from; default: end" },
    example: `${EXAMPLE_STREAM} --from 0 --to end`,
    async print(diff, { json }, terminal) {
      await terminal.writeOutput(json ? JSON.stringify(diff) : formatDiff(diff));
      await suggestNext(terminal, json, `audit replay ${diff.stream}`);
    },
  }),
  defineQueryCommand("replay", {
    query: replayQuery,
    summary: "Shows the events of a stream one by one, with their changes. Press Enter for the next event, q to quit.",
    otherOptions: { all: option.flag("show all events without waiting for a key") },
    example: EXAMPLE_STREAM,
    print: printSteps,
  }),
];

async function printEvents(
  events: ItemStream<AuditEvent>,
  { json }: CommandOptions,
  terminal: Terminal,
): Promise<void> {
  const printJson = (event: AuditEvent) => terminal.writeOutput(JSON.stringify(event));
  const print = json ? printJson : await createEventPrinter(terminal);
  let count = 0;
  let lastStream: string | undefined;
  for await (const event of events) {
    count += 1;
    lastStream = event.stream;
    await print(event);
  }
  if (!json) await terminal.writeError(formatCount(count, "event"));
  if (lastStream !== undefined) await suggestNext(terminal, json, `audit replay ${lastStream}`);
}

async function printAccesses(
  accesses: ItemStream<ClinicAccess>,
  { json }: CommandOptions,
  terminal: Terminal,
): Promise<void> {
  let count = 0;
  let lastAuditorId: string | undefined;
  for await (const access of accesses) {
    count += 1;
    if (access.actor?.type === "auditor") lastAuditorId = access.actor.id;
    await terminal.writeOutput(json ? JSON.stringify(access) : formatAccess(access));
  }
  if (!json) await terminal.writeError(formatCount(count, "access"));
  if (lastAuditorId !== undefined) await suggestNext(terminal, json, `audit accesses --auditor ${lastAuditorId}`);
}

/**
 * Prints each event of a stream with the fields that the event changed. On a terminal, each key press prints the next
 * event.
 */
async function printSteps(
  steps: ItemStream<ReplayStep>,
  { all, json, stream }: CommandOptions,
  terminal: Terminal,
): Promise<void> {
  const readKey = all || json ? undefined : terminal.readKey;
  let stepCount = 0;
  for await (const step of steps) {
    if (stepCount > 0 && (await readKey?.()) === "end") return;
    stepCount += 1;
    await terminal.writeOutput(json ? JSON.stringify(step) : formatStep(step));
    if (readKey && stepCount === 1) await terminal.writeError("(Enter: next event; q: quit)");
  }
  await suggestNext(terminal, json, `audit as-of ${stream}`);
}

function formatReaders({ readers, accesses, isComplete, problems, note }: Readers): string {
  const lines = [
    "Could read:",
    ...readers.map((reader) => `  ${formatReader(reader)}`),
    isComplete ? "Recorded accesses:" : `The latest ${accesses.length} recorded accesses:`,
    ...accesses.map((access) => `  ${formatAccess(access)}`),
    ...problems.map((problem) => `Not considered: ${problem}`),
    note,
  ];
  return lines.map(escapeControlCharacters).join("\n");
}

function formatReader({ kind, id, name, access, from, to }: Reader): string {
  return `${from} to ${(to ?? "now").padEnd(24)}  ${kind.padEnd(11)}  ${name === null ? id : `${name} (${id})`}: ${access.join("; ")}`;
}

function formatClinicState(state: ClinicState): string {
  const { at, timeZone, clinic, branches, staff, resources, installations, changes, isComplete, problems } = state;
  const names = new Map(branches.map(({ id, name }) => [id, name]));
  const inBranches = (ids: readonly string[] | null) =>
    ids && ids.length > 0 ? `in ${ids.map((id) => names.get(id) ?? id).join(", ")}` : "in all branches";
  const list = (title: string, items: readonly string[]) =>
    items.length === 0 ? [`${title}: none`] : [`${title}:`, ...items.map((item) => `  ${item}`)];
  const subscription = clinic?.subscription;
  const title = clinic
    ? `${clinic.registration.name}, ${clinic.status}, ${subscription ? `plan ${subscription.plan} (${subscription.status})` : "no subscription"}`
    : "The clinic was not yet registered.";
  const lines = [
    `${at} (time zone of the clinic: ${timeZone})`,
    title,
    ...list(
      "Branches",
      branches.map(({ id, name, city }) => `${name}${city === null ? "" : `, ${city}`} (${id})`),
    ),
    ...list(
      "Staff with access",
      staff.map(({ userId, name, role, permissions, branchIds }) => {
        const rights = permissions.join(", ") || "no permission";
        return `${name ?? userId}, ${role}: ${rights}, ${inBranches(branchIds)}`;
      }),
    ),
    ...list(
      "Resources",
      resources.map(
        ({ name, type, branchId, capacity }) => `${name}, ${type}, ${inBranches([branchId])}, capacity ${capacity}`,
      ),
    ),
    ...list(
      "Installations",
      installations.map(({ applicationId, name, scopes, branchIds, animalAccess }) => {
        return `${name ?? applicationId}: ${scopes.join(", ")}, ${animalAccess} animals, ${inBranches(branchIds)}`;
      }),
    ),
    ...list(
      isComplete ? "Changes since" : `The first ${changes.length} changes since`,
      changes.map((change) => `${change.at}  ${change.text} (${formatActor(change)})`),
    ),
    ...problems.map((problem) => `Not included: ${problem}`),
  ];
  return lines.map(escapeControlCharacters).join("\n");
}

function formatState({ stream, last: lastEvent, state }: StreamState): string {
  const json = JSON.stringify(state, null, 2).split("\n").map(escapeControlCharacters).join("\n");
  return `${stream} ${formatLastEvent(lastEvent)}\n${json}`;
}

function formatDiff({ stream, from, to, changes }: StateDiff): string {
  return `${stream}\n  from ${formatLastEvent(from)}\n  to   ${formatLastEvent(to)}\n${formatChanges(changes)}`;
}

function formatStep({ event, changes, problem }: ReplayStep): string {
  const { revision, type, occurredAt, actor, correlationId } = event;
  const headLine = `@ ${revision}  ${occurredAt}  ${type}  by ${formatActor({ actor })}  request ${correlationId}`;
  const changeLines = problem === undefined ? formatChanges(changes) : escapeControlCharacters(`    ${problem}`);
  return `${escapeControlCharacters(headLine)}\n${changeLines}`;
}

function formatLastEvent(lastEvent: StreamState["last"]): string {
  if (!lastEvent) return "before the first event";
  const { revision, type, occurredAt, storedAt, position } = lastEvent;
  return `@ ${revision} (${type}, occurred ${occurredAt}, stored ${storedAt}, position ${position})`;
}

function formatChanges(changes: Change[]): string {
  if (changes.length === 0) return "    no changes in the state";
  return changes
    .map((change) => escapeControlCharacters(`    ${change.path}: ${formatChangedValue(change)}`))
    .join("\n");
}

function formatChangedValue(change: Change): string {
  const [textBefore, textAfter] = [JSON.stringify(change.before), JSON.stringify(change.after)];
  if (!("before" in change)) return `+ ${textAfter}`;
  return "after" in change ? `${textBefore} → ${textAfter}` : `- ${textBefore}`;
}

function formatAccess({ at, actor, auditorName, action, relation, asked }: ClinicAccess): string {
  const name = auditorName === null ? "" : ` ${auditorName}`;
  const cells = [at, action.padEnd(12), relation.padEnd(8), `${formatActor({ actor })}${name}`, JSON.stringify(asked)];
  return escapeControlCharacters(cells.join("  "));
}
