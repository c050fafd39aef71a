import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import type { Actor } from "../../../shared/domain/events/metadata.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { identifyOperator } from "../../../shared/eventstore/identify-operator.ts";
import { createEventLog, type EventLog } from "../../../shared/eventstore/log.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
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
 * Returns the operator who runs a command. See {@link identifyOperator}.
 *
 * @param name value of `--actor`
 * @throws {InputError} if the name is missing, empty or longer than 200 characters
 * @throws {ConfigError} if EVENTSTORE_URL is missing or invalid
 */
export function requireOperator(env: NodeJS.ProcessEnv, name: string | undefined): Actor {
  const operator = identifyOperator(readConfig(["EVENTSTORE_URL"], env).EVENTSTORE_URL, name);
  if ("problem" in operator) throw new InputError(operator.problem);
  return operator.actor;
}

/**
 * Creates the context of an operator's command. The operation that runs the command adds the clinic and environment.
 *
 * @param now time of the command, milliseconds since 1970
 */
export function createOperatorContext(actor: Actor, now: number): CommandContext {
  const correlationId = randomUUID();
  return {
    actor,
    clinicId: null,
    environment: null,
    correlationId,
    causationId: correlationId,
    now,
  };
}
