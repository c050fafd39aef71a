import { randomUUID } from "node:crypto";
import type { Command } from "../../shared/command-line/command-line.ts";
import { InputError } from "../../shared/command-line/failure.ts";
import { suggestNext } from "../../shared/command-line/format-command-line.ts";
import { actorOption, requireOperator } from "../../shared/command-line/operator.ts";
import {
  createOptionsSchema,
  formatProblems,
  jsonOption,
  type OptionProblem,
  type Options,
  type OptionValues,
  readOptions,
  toOptionName,
  toOptionProblems,
} from "../../shared/command-line/option.ts";
import { type Category, toStreamName } from "../../shared/domain/events/category.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import type { CommandContext } from "../handling/handle.ts";
import { createOperatorContext, withEventLog } from "../handling/operator.ts";
import { createLogWaitOption } from "./options.ts";
import { createRetryingEventLog } from "./retry.ts";

type PartialValues<O extends Options> = {
  [Name in keyof OptionValues<O>]?: OptionValues<O>[Name] | undefined;
};

interface PrintedResult {
  /** Id of the object that the command is about: the value of `--id`, or the generated id. */
  id: string;
  eventCount: number;
  position: bigint | undefined;
  /** Other generated ids, and values that are shown only once, such as a client secret, by name. */
  extraValues: Record<string, string>;
}

export interface PreparedCommand {
  run(log: EventLog, context: CommandContext): Promise<PrintedResult>;
  /**
   * Id of the object that the command changes. Within an import, commands that change the same object run in file
   * order.
   */
  changedId: string;
  stream: string;
  /** All ids in the options, including `changedId`. */
  ids: string[];
}

type CheckResult =
  | { prepared: PreparedCommand }
  /** `changedId` is the id of the object that the command would change; undefined if the options do not name it. */
  | { problems: OptionProblem[]; changedId: string | undefined };

/** A command that appends events to one stream. The command line and the import use it. */
export interface DomainCommand {
  name: string;
  summary: string;
  example: string;
  options: Options;
  /** If false, an import must not contain the command, because the command prints a secret. */
  isImportable: boolean;
  /**
   * Checks the values of the options.
   *
   * @param generatesIds if true, an omitted id is generated; otherwise a missing id is a problem
   */
  check(givenValues: Record<string, unknown>, generatesIds: boolean): CheckResult;
}

interface RunResult {
  events: readonly unknown[];
  position: bigint | undefined;
  extraValues?: Record<string, string>;
}

/** Defines a command that appends events to one stream. */
export function defineDomainCommand<O extends Options>(
  category: Category,
  declaration: {
    name: `${string} ${string}`;
    summary: string;
    example: string;
    options: O;
    isImportable?: false;
    /**
     * Returns the id of the stream to which the command appends; default: the option `id`. Options with invalid values
     * are passed as undefined.
     */
    getStreamId?(values: PartialValues<O>): string | undefined;
    run(log: EventLog, values: OptionValues<O>, context: CommandContext): Promise<RunResult>;
  },
): DomainCommand {
  const { name, summary, example, options, isImportable = true } = declaration;
  const getStreamId = declaration.getStreamId ?? ((values) => (values as { id?: string }).id);
  const schema = createOptionsSchema(options);
  return {
    name,
    summary,
    example,
    options,
    isImportable,
    check(givenValues, generatesIds) {
      const generatedIds = generatesIds ? generateIds(options, givenValues) : {};
      const parseResult = schema.safeParse({ ...generatedIds, ...givenValues });
      if (!parseResult.success) {
        const changedId = getStreamId(pickValidValues(options, givenValues) as PartialValues<O>);
        return { problems: toOptionProblems(parseResult.error, givenValues), changedId };
      }
      const values = parseResult.data as OptionValues<O>;
      const changedId = getStreamId(values);
      if (changedId === undefined)
        throw new Error(`Command ${name} has no option with the id of the object that it changes`);
      const run: PreparedCommand["run"] = async (log, context) => {
        const { events, position, extraValues } = await declaration.run(log, values, context);
        const { id = changedId, ...otherIds } = pickGeneratedIds(options, values);
        return { id, eventCount: events.length, position, extraValues: { ...otherIds, ...extraValues } };
      };
      const ids = [...new Set([changedId, ...collectIds(values)])];
      return { prepared: { changedId, stream: toStreamName(category, changedId), ids, run } };
    },
  };
}

function pickValidValues(options: Options, givenValues: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(options).map(([name, { schema }]) => [name, schema.safeParse(givenValues[name]).data]),
  );
}

function generateIds(options: Options, givenValues: Record<string, unknown>): Record<string, string> {
  const names = Object.keys(options).filter((name) => options[name]?.isGenerated && givenValues[name] === undefined);
  return Object.fromEntries(names.map((name) => [name, randomUUID()]));
}

/** Returns the values of `--id` and of all other options whose ids can be generated. */
function pickGeneratedIds(options: Options, values: Record<string, unknown>): Record<string, string> {
  const names = Object.keys(options).filter((name) => name === "id" || options[name]?.isGenerated);
  return Object.fromEntries(names.map((name) => [name, String(values[name])]));
}

const UUID_PATTERN = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function collectIds(value: unknown): string[] {
  if (typeof value === "string") return UUID_PATTERN.test(value) ? [value] : [];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(collectIds) : [];
}

const waitOptions = { logWait: createLogWaitOption(10) };

/** Converts a command to its form for the command line, which prints the result as one line of text or JSON. */
export function toCommand({ name, summary, example, options, check }: DomainCommand): Command {
  return {
    name,
    summary,
    example,
    options: { ...options, actor: actorOption, ...waitOptions, json: jsonOption },
    async run({ json, actor, logWait, ...givenValues }, terminal) {
      const checkResult = check(givenValues, true);
      if ("problems" in checkResult) throw new InputError(formatProblems(checkResult.problems, toOptionName));
      const { logWait: waitSeconds } = readOptions(waitOptions, { logWait });
      const operator = requireOperator(terminal.env, actor as string | undefined);
      const context = createOperatorContext(operator, Date.now());
      const printedResult = await withEventLog(terminal.env, (log) => {
        const writeNote = (text: string) => void terminal.writeError(`${name}: ${text}`);
        const retryingLog = createRetryingEventLog(log, { waitSeconds, writeNote });
        return checkResult.prepared.run(retryingLog, context);
      });
      await terminal.writeOutput(formatResult(name, printedResult, json === true));
      await suggestNext(terminal, json === true, `audit events --stream ${checkResult.prepared.stream}`);
      return undefined;
    },
  };
}

/** Formats the result of a command as one line of text or JSON. */
export function formatResult(name: string, printedResult: PrintedResult, isJson: boolean): string {
  const { id, eventCount, extraValues } = printedResult;
  if (isJson) {
    const position = printedResult.position === undefined ? null : String(printedResult.position);
    return JSON.stringify({ command: name, id, changed: eventCount > 0, position, ...extraValues });
  }
  const status = eventCount > 0 ? "done" : "nothing to change";
  const extraTexts = Object.entries(extraValues).map(([valueName, value]) => `, ${valueName} ${value}`);
  return `${name}: ${status}, id ${id}${extraTexts.join("")}`;
}
