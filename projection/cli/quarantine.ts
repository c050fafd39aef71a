import { EXIT_CODE } from "../../shared/command-line/failure.ts";
import type { Actor } from "../../shared/domain/events/metadata.ts";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { quarantineStream, resumeStream } from "../quarantine/quarantine-commands.ts";
import type { CommandContext } from "./command-context.ts";

interface QuarantineOptions {
  position: bigint;
  reason: string;
  actor: Actor;
}

/**
 * Quarantines the stream of the event at the given log position. With `confirmType`, also quarantines all other streams
 * in which an event of the same type fails.
 *
 * @returns the exit code
 * @throws {CommandRefusedError}
 */
export async function quarantine(
  { client, pool, terminal, now }: CommandContext,
  { position, confirmType: confirmsType, ...options }: QuarantineOptions & { confirmType: boolean },
): Promise<number> {
  const log = createEventLog(client);
  const command = { ...options, now };
  const { stream, revision, type } = await quarantineStream({ client, log, pool }, position, command, { confirmsType });
  await terminal.writeOutput(
    confirmsType
      ? `Confirmed: every stream in which a stored event of type ${type} fails is skipped from that event on.`
      : `Quarantined: stream ${stream} is skipped from revision ${revision} on.`,
  );
  await terminal.writeOutput("The projectors continue within seconds. To stop skipping a stream, run `resume`.");
  return 0;
}

/**
 * Resumes the stream that is quarantined at a log position.
 *
 * @returns the exit code: 1 if the projectors still skip the stream
 * @throws {CommandRefusedError}
 */
export async function resume(
  { client, pool, terminal, now }: CommandContext,
  { position, ...options }: QuarantineOptions,
): Promise<number> {
  const deps = { client, log: createEventLog(client), pool };
  const { stream, revision, problem } = await resumeStream(deps, position, { ...options, now });
  if (problem !== undefined) {
    await terminal.writeOutput(`The projectors still skip stream ${stream}: ${problem}`);
    return EXIT_CODE.failed;
  }
  await terminal.writeOutput(`Resumed: stream ${stream} is no longer skipped from revision ${revision} on.`);
  return EXIT_CODE.done;
}
