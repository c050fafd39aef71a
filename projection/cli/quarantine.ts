import { EXIT_CODE } from "../../shared/command-line/failure.ts";
import type { Actor } from "../../shared/domain/events/metadata.ts";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { findQuarantinedStream, quarantineStream, resumeStream } from "../quarantine/quarantine-commands.ts";
import { readQuarantinedStreams } from "../quarantine/quarantined-streams.ts";
import type { CommandContext } from "./command-context.ts";
import { rebuildReadModels } from "./rebuild.ts";

interface QuarantineOptions {
  reason: string;
  actor: Actor;
}

/**
 * Quarantines the stream of the event at the given log position.
 *
 * @returns the exit code
 * @throws {CommandRefusedError}
 */
export async function quarantine(
  { client, pool, terminal, now }: CommandContext,
  position: bigint,
  options: QuarantineOptions,
): Promise<number> {
  const log = createEventLog(client);
  const command = { ...options, now };
  const { stream, revision } = await quarantineStream({ client, log, pool }, position, command);
  await terminal.writeOutput(`Quarantined: stream ${stream} is skipped from revision ${revision} on.`);
  await terminal.writeOutput("The projectors continue within seconds. To stop skipping the stream, run `resume`.");
  return 0;
}

/**
 * Resumes the stream that is quarantined at a log position. If the read models lack events of the stream, the read
 * models are first rebuilt with these events.
 *
 * @returns the exit code: 1 if an event of the stream still cannot be processed
 * @throws {CommandRefusedError}
 */
export async function resume(context: CommandContext, position: bigint, options: QuarantineOptions): Promise<number> {
  const { client, pool, terminal, now } = context;
  const command = { ...options, now };
  const log = createEventLog(client);
  const deps = { client, log, pool };
  const { stream, revision, isDecided, isIncomplete } = await findQuarantinedStream(deps, position);
  if (isIncomplete) {
    await terminal.writeOutput(`The read models lack events of stream ${stream}. Rebuilding them with these events.`);
    const exitCode = await rebuildReadModels(context, stream);
    const isStillIncomplete = (await readQuarantinedStreams(pool, READ_MODEL_SCHEMA)).has(stream);
    if (exitCode !== 0 || isStillIncomplete) {
      await terminal.writeOutput("The stream stays quarantined. Run `status` to see the cause.");
      return exitCode || EXIT_CODE.failed;
    }
  }
  if (isDecided) await resumeStream(log, stream, command);
  await terminal.writeOutput(`Resumed: stream ${stream} is no longer skipped from revision ${revision} on.`);
  return 0;
}
