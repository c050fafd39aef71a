import { instant } from "../domain/events/fields.ts";
import { findLocalTime, formatLocalTime, fromLocalTime } from "../domain/time/local-time.ts";
import { parseRfc3339 } from "../domain/time/rfc3339.ts";
import type { Command } from "./command-line.ts";
import { InputError } from "./failure.ts";
import { type Option, toOptionName } from "./option.ts";

export const LOCAL_TIME_NOTE = `A time without an offset, such as '2026-11-28 10:00', is in the time zone of the clinic that the command
concerns. If the command concerns no clinic, the time is in the time zone of this computer. A date is the start of the day.`;

const TIME_RULE = "a time such as 2026-11-28 10:00, or an RFC 3339 date-time with an offset";

/** Error messages for invalid times, by the option's placeholder; undefined if the schema reports the error. */
const RULES: Record<string, string | undefined> = {
  time: `must be ${TIME_RULE}`,
  "date or time": `must be a date, ${TIME_RULE}`,
  "date, time or start": undefined,
  point: undefined,
};

export const isTimeOption = ({ placeholder = "" }: Pick<Option, "placeholder">) => Object.hasOwn(RULES, placeholder);

const LOCAL_TIME_PATTERN = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?))?$/;

/**
 * Lets a command accept local times, such as `2026-11-28 10:00`. Adds the UTC offset before the command runs.
 *
 * @param findTimeZone returns the time zone of the clinic that the command concerns; undefined to use the time zone of
 *   this computer
 */
export function withLocalTimes(
  command: Command,
  findTimeZone: (given: Record<string, unknown>, env: NodeJS.ProcessEnv) => Promise<string | undefined> = async () =>
    undefined,
): Command {
  const { options, run } = command;
  return {
    ...command,
    async run(given, terminal) {
      const localTimes = Object.entries(given).flatMap(([key, text]) => {
        const { placeholder = "" } = options[key] ?? {};
        if (typeof text !== "string" || !isTimeOption({ placeholder })) return [];
        const [, date, time] = LOCAL_TIME_PATTERN.exec(text) ?? [];
        const isAccepted = time !== undefined || placeholder.startsWith("date");
        if (date && isAccepted && parseRfc3339(`${date}T${(time ?? "00:00").padEnd(8, ":00")}Z`))
          return [{ key, date, time }];
        const rule = RULES[placeholder];
        if (rule && !instant.safeParse(text).success) throw new InputError(`${toOptionName(key)} ${rule}`);
        return [];
      });
      if (localTimes.length === 0) return run(given, terminal);
      const { timeZone: ownTimeZone } = new Intl.DateTimeFormat().resolvedOptions();
      const timeZone = (await findTimeZone(given, terminal.env)) ?? ownTimeZone;
      const instants = localTimes.map(({ key, date, time }) => {
        if (time === undefined) return [key, formatLocalTime(timeZone, fromLocalTime(timeZone, date, "00:00"))];
        const [first, ...others] = findLocalTime(timeZone, date, time).map((ms) => formatLocalTime(timeZone, ms));
        if (first !== undefined && others.length === 0) return [key, first];
        const problem =
          first === undefined ? "skip this time" : `show this time twice: ${[first, ...others].join(", ")}`;
        throw new InputError(`${toOptionName(key)} ${date} ${time}: the clocks in ${timeZone} ${problem}`);
      });
      return run({ ...given, ...Object.fromEntries(instants) }, terminal);
    },
  };
}
