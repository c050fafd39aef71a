import type { EventStoreDBClient } from "@eventstore/db-client";
import {
  connectEventStore,
  isAccessDenied,
  REACH_TIMEOUT_MS,
  reachEventStore,
  removeSecrets,
} from "../../../shared/eventstore/connect.ts";
import { LogUnavailableError } from "../../../shared/eventstore/log.ts";
import { readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { ServerUnavailableError, StartError } from "../../../shared/runtime/run-service.ts";
import { createRetry, type RetryOptions } from "../retry.ts";
import { LogReader } from "./log-reader.ts";

export interface CopyServer {
  client: EventStoreDBClient;
  reader: LogReader;
  /** Position of the log's last event when the copy started. */
  endPosition: bigint;
  /**
   * Runs a request, and repeats it while the log is unavailable.
   *
   * @throws {ServerUnavailableError} after the time limit, or if the signal aborts while the log is unavailable
   * @throws other errors of the client, with the name of the log
   */
  request<Result>(send: () => Promise<Result>): Promise<Result>;
}

interface ConnectionOptions extends Omit<RetryOptions, "onAvailabilityChange"> {
  name: "source" | "target";
  setting: "EVENTSTORE_URL" | "COPY_TARGET_URL";
  url: string;
  writeNote(text: string): void;
}

/**
 * Connects to one log of a copy, and checks that the log responds.
 *
 * @throws {StartError} if the client refuses the URL, or the log denies access
 * @throws {ServerUnavailableError}
 */
export async function connectCopyServer(options: ConnectionOptions): Promise<CopyServer> {
  const { name, setting, url, signal, timeoutMs, writeNote } = options;
  const client = connectEventStore(url, "log copy", setting);
  const label = `the ${name} log at ${removeSecrets(url)}`;
  const toCopyServerError = (error: unknown) => {
    if (error instanceof LogUnavailableError)
      return new ServerUnavailableError(`${label} does not respond; check ${setting} and run the command again`, {
        cause: error,
      });
    if (isAccessDenied(error))
      return new StartError(`${label} denies access; check the user in ${setting}, and that the user may read $all`);
    // Errors of the client have a type.
    return error instanceof Error && "type" in error
      ? new Error(`${label} reported an error: ${error.message}`, { cause: error })
      : error;
  };
  const retry = createRetry({
    timeoutMs,
    signal,
    onAvailabilityChange: (isAvailable) =>
      writeNote(
        isAvailable
          ? `the ${name} log is available again`
          : `the ${name} log does not respond; retrying for up to ${timeoutMs / 1000} s`,
      ),
  });
  const request: CopyServer["request"] = (send) =>
    retry(send).catch((error: unknown) => {
      throw toCopyServerError(error);
    });
  try {
    await reachEventStore(client, REACH_TIMEOUT_MS);
    const endPosition = await readLogEnd(client);
    const reader = new LogReader(client, endPosition, { request, signal });
    return { client, endPosition, request, reader };
  } catch (error) {
    await client.dispose();
    throw toCopyServerError(error);
  }
}
