import { randomUUID } from "node:crypto";
import type pg from "pg";
import { createSecretBox } from "../../shared/auth/secret-box.ts";
import type { Command } from "../../shared/command-line/command-line.ts";
import { createFieldOption, toOptionKey, toWords } from "../../shared/command-line/field-option.ts";
import { suggestNext } from "../../shared/command-line/format-command-line.ts";
import { isTimeOption } from "../../shared/command-line/local-times.ts";
import { actorOption, requireOperator } from "../../shared/command-line/operator.ts";
import { jsonOption, type Option, readOptions, toOptionName } from "../../shared/command-line/option.ts";
import { toStreamName } from "../../shared/domain/events/category.ts";
import { formatLocalTime } from "../../shared/domain/time/local-time.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ConfigError, readConfig } from "../../shared/runtime/config.ts";
import { areReadModelsMissing, isPostgresUnavailable } from "../../shared/runtime/failures.ts";
import { createOperatorContext, withEventLog } from "../handling/operator.ts";
import { createExample } from "../operations/command-example.ts";
import type { CommandDependencies, CommandOutcome, StaffCommand } from "../operations/define-command.ts";
import { createLinkCodes } from "../operations/link-codes.ts";
import { findTimeZone } from "./find-time-zone.ts";
import { createLogWaitOption } from "./options.ts";
import { findName } from "./resolve-options.ts";
import { createRetryingEventLog } from "./retry.ts";

const waitOptions = { logWait: createLogWaitOption(10) };

/** Creates the command-line form of a command. It prints the result as text or, with `--json`, as one line of JSON. */
export function toCommand(command: StaffCommand): Command {
  const { name, summary, input, creates, category } = command;
  const fields = Object.entries(input.shape);
  const options = Object.fromEntries(
    fields.map(([field, schema]) => [toOptionKey(field), createFieldOption(field, schema, field === creates)]),
  );
  return {
    name,
    summary,
    example: formatExample(command),
    options: { ...options, actor: actorOption, ...waitOptions, json: jsonOption },
    async run({ json, actor, logWait, ...givenValues }, terminal) {
      const newIds = creates === undefined ? {} : { [toOptionKey(creates)]: randomUUID() };
      const optionValues = readOptions(options, { ...newIds, ...givenValues });
      const values = Object.fromEntries(
        fields.flatMap(([field]) => {
          const key = toOptionKey(field);
          return key in optionValues ? [[field, optionValues[key]]] : [];
        }),
      );
      const { logWait: waitSeconds } = readOptions(waitOptions, { logWait });
      const context = createOperatorContext(requireOperator(terminal.env, actor as string | undefined), Date.now());
      const line = await withEventLog(terminal.env, async (log, _client, _dataKeys, openPool) => {
        const writeNote = (text: string) => void terminal.writeError(`${name}: ${text}`);
        const retryingLog = createRetryingEventLog(log, { waitSeconds, writeNote });
        const outcome = await command.run(createDependencies(retryingLog, terminal.env), values, context);
        const describeId = terminal.columns === undefined ? describePlainId : createIdDescriber(openPool);
        return formatOutcome(command, values, outcome, json === true ? undefined : describeId);
      });
      const times = Object.entries(optionValues).filter(
        ([key, value]) => value && isTimeOption(options[key] as Option),
      );
      await terminal.writeOutput(
        json || times.length === 0 ? line : line + (await formatTimes(times, optionValues, terminal.env)),
      );
      const stream = toStreamName(category, command.getStreamId(values) ?? "");
      await suggestNext(terminal, json === true, `audit events --stream ${stream}`);
      return undefined;
    },
  };
}

/**
 * Formats the given times, one line each, in the clinic's time zone or, if it is unknown, in this computer's time zone.
 */
async function formatTimes(
  times: [key: string, instant: unknown][],
  optionValues: Record<string, unknown>,
  env: NodeJS.ProcessEnv,
): Promise<string> {
  // The command has succeeded, so it does not fail if the clinic cannot be read. The output names the time zone.
  const clinicZone = await findTimeZone(optionValues, env).catch(() => undefined);
  const timeZone = clinicZone ?? new Intl.DateTimeFormat().resolvedOptions().timeZone;
  const lines = times.map(
    ([key, instant]) => `\n${toWords(key)}: ${formatLocalTime(timeZone, Date.parse(String(instant)))} (${timeZone})`,
  );
  return lines.join("");
}

export function createDependencies(log: EventLog, env: NodeJS.ProcessEnv): CommandDependencies {
  return {
    log,
    get linkCodes() {
      return createLinkCodes(readConfig(["PERSONAL_DATA_KEYS"], env).PERSONAL_DATA_KEYS);
    },
    get secretBox() {
      return createSecretBox(readConfig(["WEBHOOK_SECRET_KEYS"], env).WEBHOOK_SECRET_KEYS);
    },
  };
}

type IdDescriber = (key: string, id: string) => Promise<string>;

const describePlainId: IdDescriber = async (_key, id) => id;

/** Creates a function that adds an object's name to its id. If the name is unavailable, it returns only the id. */
function createIdDescriber(openPool: () => pg.Pool): IdDescriber {
  return async (key, id) => {
    try {
      const objectName = await findName(openPool(), key, id);
      return objectName === undefined ? id : `${id} (${objectName})`;
    } catch (error) {
      if (error instanceof ConfigError || isPostgresUnavailable(error) || areReadModelsMissing(error)) return id;
      throw error;
    }
  };
}

/**
 * Formats the result of a command as text, with each secret on its own line, or as one line of JSON.
 *
 * @param describeId formats an id for the text; undefined for JSON
 */
async function formatOutcome(
  command: StaffCommand,
  values: Record<string, unknown>,
  { events, position, ids, secrets = {} }: CommandOutcome,
  describeId: IdDescriber | undefined,
): Promise<string> {
  const { name, resultId, creates } = command;
  const allIds = { [resultId]: String(creates ? values[creates] : command.getStreamId(values)), ...ids };
  const changed = events.length > 0;
  if (!describeId)
    return JSON.stringify({
      ...{ command: name, ...allIds, changed },
      position: position === undefined ? null : String(position),
      ...secrets,
    });
  const texts = [changed ? "done" : "nothing to change"];
  for (const [key, id] of Object.entries(allIds))
    texts.push(`${toOptionKey(key)} ${await describeId(toOptionKey(key), id)}`);
  const secretLines = Object.entries(secrets).map(([key, value]) => `${toWords(key)}: ${value}`);
  return [`${name}: ${texts.join(", ")}`, ...secretLines].join("\n");
}

function formatExample(command: StaffCommand): string {
  return Object.entries(createExample(command))
    .map(([field, value]) => {
      const text = value === null ? "" : String(value);
      const argument = /^[\w:.,+/-]+$/.test(text) ? text : `'${text}'`;
      return `${toOptionName(toOptionKey(field))}${value === true ? "" : ` ${argument}`}`;
    })
    .join(" ");
}
