import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog, type EventLog } from "../../../shared/eventstore/log.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { findUserName } from "../../../shared/runtime/user-name.ts";
import type { CommandContext } from "../../handling/handle.ts";
import { InputError } from "./failure.ts";

/** Connects to the event log, calls a function with it, and closes the connection afterwards. */
export async function withEventLog<Result>(
  env: NodeJS.ProcessEnv,
  run: (log: EventLog, client: EventStoreDBClient) => Promise<Result>,
): Promise<Result> {
  const { EVENTSTORE_URL } = readConfig(["EVENTSTORE_URL"], env);
  const client = connectEventStore(EVENTSTORE_URL, "operator");
  try {
    return await run(createEventLog(client), client);
  } finally {
    await client.dispose();
  }
}

/**
 * Creates the context of an operator's command. The operation that runs the command adds the clinic and environment.
 *
 * @param actor name of the operator; default: the operator's user name
 * @param now time of the command, milliseconds since 1970
 * @throws {InputError} if the name is missing, empty or longer than 200 characters
 */
export function createOperatorContext(actor: string | undefined, now: number): CommandContext {
  const id = actor ?? findUserName();
  if (id === undefined) throw new InputError("--actor is required, because the user of this process has no name");
  if (id.length < 1 || id.length > 200) throw new InputError("--actor must have 1 to 200 characters");
  const correlationId = randomUUID();
  return {
    actor: { type: "operator", id },
    clinicId: null,
    environment: null,
    correlationId,
    causationId: correlationId,
    now,
  };
}
