import { randomUUID } from "node:crypto";
import { z } from "zod";
import { type Category, streamName } from "../../../shared/domain/events/category.ts";
import { describeIssue } from "../../../shared/domain/validation/describe-issue.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import type { CommandContext } from "../../handling/handle.ts";
import type { Option } from "./option.ts";

type Options = Record<string, Option>;
type Values<O extends Options> = { [Name in keyof O]: z.output<O[Name]["schema"]> };

/** What came of a command. */
export interface CommandOutcome {
  /** Of what the command is about: the one that its options name, or that was made. */
  id: string;
  /** Events appended; none where it was so already. */
  events: number;
  /** Where the last of them stands in the log. */
  position: bigint | undefined;
  /** Further ids that were made, and what is shown this once, such as a client secret. */
  shown: Record<string, string>;
}

/** A command with its options, checked: it can be carried out. */
export interface Call {
  outcome(log: EventLog, context: CommandContext): Promise<CommandOutcome>;
  /** The id of what it changes; commands that change the same must keep their order. */
  changes: string;
  /** The stream that records the change. */
  stream: string;
  /** Every id that it names, what it changes among them. */
  ids: string[];
}

export interface OptionProblem {
  option: string;
  /** Path to the value within the options; empty for the options as a whole. */
  path: readonly PropertyKey[];
  message: string;
}

/** Options that were checked: the command can be carried out, or it has problems. */
export type Checked =
  | { call: Call }
  /** `changes` is the id of what the command would change; undefined if the options do not say. */
  | { problems: OptionProblem[]; changes: string | undefined };

/** A command of the operator's, as the command line and the import know it. */
export interface Command {
  noun: string;
  verb: string;
  summary: string;
  /** The options of an example. */
  example: string;
  options: Options;
  /** Whether it may stand in an import: a command that shows a secret may not. */
  importable: boolean;
  /**
   * Checks options, by name in camelCase.
   *
   * @param makeIds whether an id that is left out is made; else it is missing
   */
  check(given: Record<string, unknown>, makeIds: boolean): Checked;
}

/** What a declaration's `run` returns: of an operation's result, what is told to the operator. */
interface Result {
  events: readonly unknown[];
  position: bigint | undefined;
  shown?: Record<string, string>;
}

/** Declares a command: its words, its options, what it changes, and what it does. */
export function defineCommand<O extends Options>(declared: {
  name: `${string} ${string}`;
  summary: string;
  example: string;
  options: O;
  importable?: false;
  /** Category of the stream that records the change. */
  category: Category;
  /** Returns the id of that stream. Options that are not valid are undefined. */
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

/** What `--id` says, and the options for which an id is made unless the operator gives one. */
function idsMadeFor(options: Options, values: Record<string, unknown>): Record<string, string> {
  const names = Object.keys(options).filter((name) => name === "id" || options[name]?.made);
  return Object.fromEntries(names.map((name) => [name, String(values[name])]));
}

/** What is wrong with options, told of each by its name. */
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
