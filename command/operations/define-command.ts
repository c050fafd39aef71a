import { z } from "zod";
import type { SecretBox } from "../../shared/auth/secret-box.ts";
import type { Aggregate, Decision } from "../../shared/domain/aggregate.ts";
import type { Clinic } from "../../shared/domain/clinic/clinic.ts";
import type { categories } from "../../shared/domain/events/catalog.ts";
import type { Category, EventOf } from "../../shared/domain/events/category.ts";
import { makeOptional, uuid } from "../../shared/domain/events/fields.ts";
import type { Permission } from "../../shared/domain/events/people.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, type CommandResult, handle } from "../handling/handle.ts";
import type { LinkCodes } from "./link-codes.ts";
import { type ClinicOperation, defineClinicOperation } from "./operation.ts";

/** Dependencies of commands. The encryption keys are read when a command first uses `linkCodes` or `secretBox`. */
export interface CommandDependencies {
  log: EventLog;
  readonly linkCodes: LinkCodes;
  readonly secretBox: SecretBox;
}

export interface CommandOutcome {
  events: readonly { type: string }[];
  /** Log position of the last event; undefined if the command changed nothing. */
  position: bigint | undefined;
  /** Ids that the command has generated in addition to the ids in its input, by name. */
  ids?: Record<string, string>;
  /** Values that are shown only once, by name. */
  secrets?: Record<string, string>;
}

/**
 * Declaration of a command for operators and staff. The command line, the import and the command reference are built
 * from these declarations.
 */
export interface StaffCommand {
  /** One or more nouns and a verb, such as `appointment confirm`. */
  name: string;
  summary: string;
  category: Category;
  /** All fields of the input, with defaults. */
  input: z.ZodObject<Record<string, z.ZodType>>;
  /** Field with the id of the object that the command creates. The command line generates the id if it is omitted. */
  creates: string | undefined;
  /** Name under which the result contains the id of the created or changed object. */
  resultId: string;
  /**
   * Permission that a member of the clinic needs to run the command; `operator` if no member may run it; undefined if
   * the command does not concern one clinic.
   */
  permission: Permission | "operator" | undefined;
  /** False if an import must not contain the command, because it shows a secret. */
  isImportable: boolean;
  /** Example values that only this command has, by field. They override the example values that all commands share. */
  example: Record<string, unknown>;
  /** Returns the id of the stream that the command changes; undefined if the values do not determine it. */
  getStreamId(values: Record<string, unknown>): string | undefined;
  run(
    dependencies: CommandDependencies,
    values: Record<string, unknown>,
    context: CommandContext,
  ): Promise<CommandOutcome>;
}

type Shape = Record<string, z.ZodType>;

/** Values of the fields after validation. */
type Values<S extends Shape> = z.output<z.ZodObject<S>> & { clinicId: string };

/** Input of the operation. Fields with a default can be omitted, and so can fields that can be null. */
type Given<S extends Shape> = OmittableNull<z.input<z.ZodObject<S>>> & { clinicId: string };
type OmittableNull<Input> = {
  [Name in keyof Input as null extends Input[Name] ? never : Name]: Input[Name];
} & { [Name in keyof Input as null extends Input[Name] ? Name : never]?: Input[Name] };

interface Declaration<S extends Shape> {
  summary: string;
  /** Input fields, usually the fields of the appended event. A nullable field is null if it is omitted. */
  input: z.ZodObject<S>;
  creates?: keyof S & string;
  example?: Partial<z.input<z.ZodObject<S>>>;
}

/**
 * Returns the input fields of a command that changes some details of an object: the fields of the event, all optional
 * except the id.
 *
 * @param idName field that cannot be omitted
 */
export function changesOf<S extends Shape, IdName extends keyof S & string>({ shape }: z.ZodObject<S>, idName: IdName) {
  const fields: object = { ...makeOptional(shape), [idName]: shape[idName] };
  return z.object(fields as { [Name in keyof S]: Name extends IdName ? S[Name] : z.ZodExactOptional<S[Name]> });
}

type DeclaredOperation<Input, State> = {
  (log: EventLog, input: Input, context: CommandContext): Promise<CommandResult<State>>;
  command: StaffCommand;
};

/**
 * Defines a command that changes one stream of a clinic. Adds the field `clinicId` to the input if it is missing.
 *
 * @returns the operation, which expects valid input; its property `command` contains the declaration
 */
export function defineCommand<
  C extends (typeof categories)[number],
  State,
  S extends Shape,
  Found = undefined,
  Closed extends boolean = false,
>(
  name: `${string} ${string}`,
  aggregate: Aggregate<C, State>,
  declaration: Declaration<S> & { permission: Permission | "operator" } & ClinicOperation<
      C,
      State,
      Values<S>,
      Found,
      Closed
    >,
): DeclaredOperation<Given<S>, State> {
  const operation = defineClinicOperation(aggregate, declaration) as StoredOperation<State>;
  return attachCommand(describeCommand(name, aggregate.category, declaration, true), operation);
}

/**
 * Defines commands with the same input, such as the transitions of a status.
 *
 * @param rows verb, summary and decider of each command
 */
export function defineTransitions<
  C extends (typeof categories)[number],
  State,
  S extends Shape,
  Rows extends readonly (readonly [verb: string, summary: string, decide: TransitionDecider<C, State, S>])[],
>(
  noun: string,
  aggregate: Aggregate<C, State>,
  common: { input: z.ZodObject<S>; permission: Permission },
  rows: readonly [...Rows],
): { [Index in keyof Rows]: DeclaredOperation<Given<S>, State> } {
  return rows.map(([verb, summary, decide]) =>
    defineCommand(`${noun} ${verb}`, aggregate, { ...common, summary, decide }),
  ) as never;
}

type TransitionDecider<C extends Category, State, S extends Shape> = (
  values: Values<S>,
  clinic: Clinic,
  now: number,
) => Decision<State, EventOf<C>>;

/** Defines a command that changes one stream outside of all clinics. */
export function defineCommandOutsideClinics<C extends (typeof categories)[number], State, S extends Shape>(
  name: `${string} ${string}`,
  aggregate: Aggregate<C, State>,
  declaration: Declaration<S> & { decide(values: z.output<z.ZodObject<S>>): Decision<State, EventOf<C>> },
): DeclaredOperation<OmittableNull<z.input<z.ZodObject<S>>>, State> {
  const { category } = aggregate;
  return attachCommand(describeCommand(name, category, declaration, false), (log, values, context) => {
    const id = category.getStreamId({ type: "", data: values });
    return handle(log, aggregate, id, declaration.decide(values as z.output<z.ZodObject<S>>), context);
  });
}

/**
 * Declares a command with its own `run` function. For commands that concern no clinic, change several streams, or show
 * a secret.
 */
export function declareCommand<S extends Shape>(
  name: `${string} ${string}`,
  { category }: Pick<Aggregate<Category, never>, "category">,
  declaration: Declaration<S> & {
    permission?: Permission | "operator";
    isImportable?: false;
    run(
      dependencies: CommandDependencies,
      values: z.output<z.ZodObject<S>>,
      context: CommandContext,
    ): Promise<CommandOutcome>;
  },
): StaffCommand {
  return { ...describeCommand(name, category, declaration, false), run: declaration.run as StaffCommand["run"] };
}

type Description = Omit<StaffCommand, "run">;

/** @param isInClinic true if the command needs the field `clinicId` */
function describeCommand<S extends Shape>(
  name: string,
  category: Category,
  declaration: Declaration<S> & Partial<Pick<StaffCommand, "permission" | "isImportable">> & { streamId?: unknown },
  isInClinic: boolean,
): Description {
  const { summary, permission, creates, isImportable = true, example = {} } = declaration;
  const input = createInput(declaration.input.shape, isInClinic);
  const streamId = declaration.streamId as StaffCommand["getStreamId"] | undefined;
  return {
    ...{ name, summary, category, input, permission, creates, isImportable, example },
    resultId: creates ?? (streamId ? `${category.name}Id` : (Object.keys(input.shape)[0] as string)),
    getStreamId: streamId ?? ((values) => category.getStreamId({ type: "", data: values })),
  };
}

type StoredOperation<State> = (
  log: EventLog,
  values: Record<string, unknown>,
  context: CommandContext,
) => Promise<CommandResult<State>>;

function attachCommand<State>(description: Description, operation: StoredOperation<State>) {
  // Other code may pass objects with further fields.
  const input = z.object(description.input.shape);
  const run = (log: EventLog, given: object, context: CommandContext) => operation(log, input.parse(given), context);
  const command: StaffCommand = { ...description, run: ({ log }, values, context) => operation(log, values, context) };
  return Object.assign(run, { command });
}

function createInput(shape: Shape, isInClinic: boolean): StaffCommand["input"] {
  const fields = Object.entries(shape).map(([name, schema]) => [name, addDefault(schema)] as const);
  if (isInClinic && !("clinicId" in shape)) fields.splice(1, 0, ["clinicId", uuid]);
  return z.strictObject(Object.fromEntries(fields));
}

function addDefault(schema: z.ZodType): z.ZodType {
  if (schema instanceof z.ZodNullable) return schema.default(null);
  return schema instanceof z.ZodBoolean ? schema.default(false) : schema;
}
