import { createEventLog } from "../../shared/eventstore/log.ts";
import {
  CommandRefused,
  findParked,
  type ParkingCommand,
  parkStream,
  resumeStream,
} from "../parking/parking-commands.ts";
import type { CommandContext } from "./command.ts";
import { rebuildReadModels } from "./rebuild.ts";

export interface ParkingOptions {
  reason: string;
  actor: string;
}

/**
 * Parks the stream of the event at a position.
 *
 * @returns the exit code
 * @throws {ActRefused}
 */
export async function park(
  { client, pool, terminal, now }: CommandContext,
  position: bigint,
  options: ParkingOptions,
): Promise<number> {
  const log = createEventLog(client);
  const parked = await parkStream({ client, log, pool }, position, toCommand(options, now));
  const { stream, revision, passedOverBy } = parked;
  if (passedOverBy === "relay") {
    terminal.out(`parked: partners are told nothing of stream ${stream} from revision ${revision} on`);
    terminal.out(
      "the read models keep it; the relay goes on by itself within seconds; `resume` takes the stream back",
    );
  } else {
    terminal.out(`parked: stream ${stream} is passed over from revision ${revision} on`);
    terminal.out("the projectors go on by themselves within seconds; `resume` takes the stream back");
  }
  return 0;
}

/**
 * Takes the stream parked at a position back. What partners were not told of it they are not told later. Where the read
 * models leave events of it out, they are rebuilt with it first, beside those that serve: only when that has worked is
 * the stream resumed, so that a cause that is still there leaves all as it was.
 *
 * @returns the exit code
 * @throws {ActRefused}
 * @throws {ProjectionFailure} where the stream still cannot be taken
 */
export async function resume(
  context: CommandContext,
  position: bigint,
  options: ParkingOptions,
): Promise<number> {
  const { client, pool, terminal, now } = context;
  const command = toCommand(options, now);
  const log = createEventLog(client);
  const { parked, leftOut } = await findParked({ client, log, pool }, position);
  if (leftOut) {
    terminal.out(
      `events of stream ${parked.stream} were passed over: rebuilds the read models with them in their order`,
    );
    const code = await rebuildReadModels(context, parked.stream);
    if (code !== 0) {
      terminal.out("the stream stays parked");
      return code;
    }
  }
  await resumeStream(log, parked.stream, command);
  terminal.out(`resumed: stream ${parked.stream} is taken from revision ${parked.revision} on`);
  return 0;
}

function toCommand({ reason, actor }: ParkingOptions, now: number): ParkingCommand {
  const text = reason.trim();
  if (text.length < 1 || text.length > 200)
    throw new CommandRefused("--reason must have 1 to 200 characters");
  if (actor.length < 1 || actor.length > 200)
    throw new CommandRefused("--actor must have 1 to 200 characters");
  return { actor, reason: text, now };
}
