import { randomUUID } from "node:crypto";
import { z } from "zod";
import { type Category, streamName } from "../../../shared/domain/events/category.ts";
import { describeIssue } from "../../../shared/domain/validation/describe-issue.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import type { CommandContext } from "../../handling/handle.ts";
import type { Option } from "./option.ts";

type Options = Record<string, Option>;
type Values<O extends Options> = { [Name in keyof O]: z.output<O[Name]["schema"]> };

/** Result of a command. */
export interface CommandOutcome {
  /** Id of the object that the command is about: given in the options, or generated. */
  id: string;
  /** Number of appended events; 0 if there was nothing to change. */
  events: number;
  /** Log position of the last appended event. */
  position: bigint | undefined;
  /** Other generated ids, and values that are shown only once, such as a client secret. */
  shown: Record<string, string>;
}

/** A command with valid options, ready to run. */
export interface Call {
  outcome(log: EventLog, context: CommandContext): Promise<CommandOutcome>;
  /** Id of the object that the command changes. Commands with the same id keep their order. */
  changes: string;
  /** Stream to which the command appends. */
  stream: string;
  /** All ids in the options, including the id that it changes. */
  ids: string[];
}

export interface OptionProblem {
  option: string;
  /** Path to the value within the options; empty for the options as a whole. */
  path: readonly PropertyKey[];
  message: string;
}

/** Result of checking options. */
export type Checked =
  | { call: Call }
  /** `changes` is the id of the object that the command would change; undefined if the options do not contain it. */
  | { problems: OptionProblem[]; changes: string | undefined };

/** An operator command, as used by the command line and the import. */
export interface Command {
  noun: string;
  verb: string;
  summary: string;
  /** Options of the example in the help. */
  example: string;
  options: Options;
  /** Whether an import may contain the command. A command that prints a secret cannot be imported. */
  importable: boolean;
  /**
   * Checks options, whose names are in camelCase.
   *
   * @param makeIds generates an omitted id; else a missing id is a problem
   */
  check(given: Record<string, unknown>, makeIds: boolean): Checked;
}

/** Result of a declaration's `run`: the part of an operation's result that is printed. */
interface Result {
  events: readonly unknown[];
  position: bigint | undefined;
  shown?: Record<string, string>;
}

/** Declares an operator command. */
export function defineCommand<O extends Options>(declared: {
  name: `${string} ${string}`;
  summary: string;
  example: string;
  options: O;
  importable?: false;
  /** Category of the stream to which the command appends. */
  category: Category;
  /** Returns the id of that stream. Invalid options are undefined. */
  changes(values: { [Name in keyof Values<O>]?: Values<O>[Name] | undefined }): string | undefined;
  run(log: EventLog, values: Values<O>, context: CommandContext): Promise<Result>;
}): Command {
  const { name, summary, example, options, importable = true } = declared;
  const [noun = "", verb = ""] = name.split(" ");
  const schema = z.strictObject(
    Object.fromEntries(Object.entries(options).map(([key, { schema }]) => [key, schema])),
  );
  return {
    ...{ noun, verb, summary, example, options, importable },
    check(given, makeIds) {
      const made = makeIds ? idsFor(options, given) : {};
      const checked = schema.safeParse({ ...made, ...given });
      if (!checked.success) {
        const changes = declared.changes(validIn(options, given) as Partial<Values<O>>);
        return { problems: problemsOf(checked.error, given), changes };
      }
      const values = checked.data as Values<O>;
      const changes = declared.changes(values);
      if (changes === undefined) throw new Error(`${name} does not say what it changes`);
      const stream = streamName(declared.category, changes);
      const ids = [...new Set([changes, ...idsIn(values)])];
      const outcome: Call["outcome"] = async (log, context) => {
        const { events, position, shown = {} } = await declared.run(log, values, context);
        const { id = changes, ...made } = idsMadeFor(options, values);
        return { id, events: events.length, position, shown: { ...made, ...shown } };
      };
      return { call: { changes, stream, ids, outcome } };
    },
  };
}

function validIn(options: Options, given: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(options).map(([name, { schema }]) => [name, schema.safeParse(given[name]).data]),
  );
}

function idsFor(options: Options, given: Record<string, unknown>): Record<string, string> {
  const missing = Object.keys(options).filter((name) => options[name]?.made && given[name] === undefined);
  return Object.fromEntries(missing.map((name) => [name, randomUUID()]));
}

/** Values of `--id` and of all options for which an id can be generated. */
function idsMadeFor(options: Options, values: Record<string, unknown>): Record<string, string> {
  const names = Object.keys(options).filter((name) => name === "id" || options[name]?.made);
  return Object.fromEntries(names.map((name) => [name, String(values[name])]));
}

/** Lists the problems of options, each with the name of the option. */
export function problemsOf({ issues }: z.ZodError, given: Record<string, unknown>): OptionProblem[] {
  return issues.flatMap((issue) => problems(issue, given));
}

function problems(issue: z.core.$ZodIssue, given: Record<string, unknown>): OptionProblem[] {
  if (issue.code === "unrecognized_keys")
    return issue.keys.map((option) => ({
      option,
      path: [option],
      message: "is not an option of this command",
    }));
  const { path } = issue;
  const option = path.join(".");
  const missing = path.length === 1 && given[option] === undefined;
  return [{ option, path, message: missing ? "is missing" : describeIssue(issue) }];
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function idsIn(value: unknown): string[] {
  if (typeof value === "string") return UUID.test(value) ? [value] : [];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(idsIn) : [];
}
