import { findLocalTime, formatLocalTime } from "../domain/time/local-time.ts";
import { parseRfc3339 } from "../domain/time/rfc3339.ts";
import type { Command } from "./command-line.ts";
import { InputError } from "./failure.ts";
import { toOptionName } from "./option.ts";

export const LOCAL_TIME_NOTE = `A time without an offset, such as '2026-11-28 10:00', is in the time zone of the clinic that the command
concerns. If the command concerns no clinic, the time is in the time zone of this computer.`;

/** Placeholders of the options that take a time. */
const TIME_PLACEHOLDERS: readonly (string | undefined)[] = ["date-time", "time"];

const LOCAL_TIME_PATTERN = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(?::00)?$/;

/**
 * Lets a command accept times as people type them, such as `2026-11-28 10:00`. The command gets them with an offset.
 *
 * @param findTimeZone returns the time zone of the clinic that the command concerns; undefined if it concerns none
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
      const localTimes = Object.entries(given).flatMap(([key, value]) => {
        const [, date, time] = LOCAL_TIME_PATTERN.exec(String(value)) ?? [];
        const isTime = TIME_PLACEHOLDERS.includes(options[key]?.placeholder);
        return isTime && date && time && parseRfc3339(`${date}T${time}:00Z`) ? [{ key, date, time }] : [];
      });
      if (localTimes.length === 0) return run(given, terminal);
      const { timeZone: ownTimeZone } = new Intl.DateTimeFormat().resolvedOptions();
      const timeZone = (await findTimeZone(given, terminal.env)) ?? ownTimeZone;
      const instants = localTimes.map(({ key, date, time }) => {
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
