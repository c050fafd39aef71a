import type { EventStoreDBClient } from "@eventstore/db-client";
import { START } from "@eventstore/db-client";
import type pg from "pg";
import { BEFORE_FIRST, READ_MODEL_SCHEMA } from "../engine/ddl.ts";
import { readCheckpoint } from "../engine/projection.ts";
import { relayedTypes } from "../relay/to-message.ts";
import type { ProjectionCommand } from "./command.ts";

/** Events behind are counted up to here. */
const MOST_COUNTED = 10_000;

interface Lag {
  events: number;
  /** Since the first event that is not taken yet was stored. */
  seconds: number;
}

export const statusCommand: ProjectionCommand = {
  description: "How far the read models and the relay are in the log.",
  async run({ client, pool, terminal }) {
    const everything = (type: string) => !type.startsWith("$");
    const relayed = new Set<string>(relayedTypes);
    const followers = [
      { name: "projectors", position: await readCheckpoint(pool, READ_MODEL_SCHEMA), takes: everything },
      { name: "relay", position: await relayCheckpoint(pool), takes: (type: string) => relayed.has(type) },
    ];
    for (const { name, position, takes } of followers) {
      const { events, seconds } = await lagBehind(client, position, takes);
      const behind =
        events === 0 ? "up to date" : `${many(events)} events and ${seconds.toFixed(1)} s behind`;
      terminal.out(`${name.padEnd(12)} position ${position}  ${behind}`);
    }
    return 0;
  },
};

async function relayCheckpoint(pool: pg.Pool): Promise<bigint> {
  const { rows } = await pool.query<{ position: bigint }>("SELECT position FROM webhooks.relay_checkpoint");
  return rows[0]?.position ?? BEFORE_FIRST;
}

/** What stands in the log after a position, of the events that a follower takes. */
async function lagBehind(
  client: EventStoreDBClient,
  position: bigint,
  takes: (type: string) => boolean,
): Promise<Lag> {
  const fromPosition = position === BEFORE_FIRST ? START : { commit: position, prepare: position };
  const lag: Lag = { events: 0, seconds: 0 };
  for await (const { event } of client.readAll({ fromPosition, maxCount: MOST_COUNTED + 1 })) {
    if (!event || !takes(event.type) || event.position.commit <= position) continue;
    if (lag.events === 0) lag.seconds = (Date.now() - event.created.getTime()) / 1000;
    lag.events += 1;
  }
  return lag;
}

function many(events: number): string {
  return events >= MOST_COUNTED ? `${MOST_COUNTED} or more` : String(events);
}
