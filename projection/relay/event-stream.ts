import { DiscardPolicy, type JetStreamManager, NatsError, nanos, RetentionPolicy, StorageType } from "nats";
import { getDatabaseName, parseConnectionString } from "../../shared/postgres/connection-string.ts";
import type { Logger } from "../../shared/runtime/logger.ts";

/** Name, subjects and replicas of the JetStream stream with the public events. */
export interface EventStream {
  name: string;
  /** Prefix of all subjects, without a final dot. Environment and event type follow. */
  subjectPrefix: string;
  /** Configured number of replicas. If undefined, up to three, as the cluster allows. */
  replicas: number | undefined;
}

/** Time for which NATS keeps messages, as an interval of Postgres. */
export const MAX_MESSAGE_AGE = "1 day";
const MAX_MESSAGE_AGE_MS = 24 * 60 * 60_000;

/** JetStream drops a second message with the same id within this time. */
const DEDUPLICATION_WINDOW_MS = 2 * 60_000;

/**
 * Options of JetStream requests. The timeout in milliseconds is short, because a cluster that does not answer may be
 * electing a leader, and a repeated request may succeed. `checkAPI` is off, because the check fails while the whole
 * cluster has no leader, although the stream works.
 */
export const JETSTREAM_OPTIONS = { timeout: 2_000, checkAPI: false };

const DEFAULT_REPLICAS = 3;

const NOT_FOUND_CODES = [10_059, 10_014];

/**
 * Error codes of JetStream if too few servers can hold a replica: no cluster, no change of replicas in this version, no
 * suitable servers, or too little space on them.
 */
const PLACEMENT_CODES = [10_074, 10_061, 10_005, 10_023, 10_047];

/** Returns the names of a database's stream. Databases that share a NATS server have separate streams. */
export function deriveStreamNames(databaseUrl: string, replicas?: number): EventStream {
  const databaseName = getDatabaseName(parseConnectionString(databaseUrl));
  const safeName = databaseName.replace(/[^A-Za-z0-9_-]/g, "_");
  return { name: `clinic_public_events_${safeName}`, subjectPrefix: `clinic.public_events.${safeName}`, replicas };
}

/**
 * Creates the stream if it is missing. NATS deletes messages after a day. There is no limit in bytes, because the server
 * would reserve that storage when it creates the stream.
 *
 * If the stream has fewer replicas than it should have, adds replicas. Never removes replicas, and changes nothing else
 * that an operator may have set.
 *
 * @returns last sequence number in the stream
 * @throws {Error} if the stream is missing and the cluster cannot hold the configured number of replicas
 */
export async function ensureEventStream(jsm: JetStreamManager, stream: EventStream, logger: Logger): Promise<bigint> {
  const info = await findInfo(() => jsm.streams.info(stream.name));
  if (info) await addReplicas(jsm, stream, info.config.num_replicas, logger);
  else await createStream(jsm, stream);
  return BigInt(info?.state.last_seq ?? 0);
}

async function createStream(jsm: JetStreamManager, stream: EventStream): Promise<void> {
  const addStream = (replicas: number) =>
    jsm.streams.add({
      name: stream.name,
      subjects: [`${stream.subjectPrefix}.>`],
      retention: RetentionPolicy.Limits,
      storage: StorageType.File,
      discard: DiscardPolicy.Old,
      max_age: nanos(MAX_MESSAGE_AGE_MS),
      duplicate_window: nanos(DEDUPLICATION_WINDOW_MS),
      num_replicas: replicas,
    });
  const problem = await placeReplicas(stream, 1, addStream);
  if (problem === undefined) return;
  const settingText = stream.replicas === undefined ? "" : ` Check NATS_STREAM_REPLICAS, which is ${stream.replicas}.`;
  throw new Error(`NATS cannot store the stream ${stream.name}: ${problem}.${settingText}`);
}

async function addReplicas(
  jsm: JetStreamManager,
  stream: EventStream,
  currentReplicas: number,
  logger: Logger,
): Promise<void> {
  const problem = await placeReplicas(stream, currentReplicas + 1, (replicas) =>
    jsm.streams.update(stream.name, { num_replicas: replicas }),
  );
  // The stream works with fewer replicas, and the next session tries again.
  if (problem !== undefined && stream.replicas !== undefined)
    logger.warn(
      { problem, currentReplicas, replicas: stream.replicas },
      "NATS cannot store as many replicas as NATS_STREAM_REPLICAS demands.",
    );
}

/**
 * Requests the configured number of replicas. If none is configured, requests up to three replicas, and fewer while the
 * cluster cannot hold them.
 *
 * @param minReplicas smallest number to request
 * @returns the reason if the cluster cannot hold the replicas
 * @throws other errors of the request
 */
async function placeReplicas(
  stream: EventStream,
  minReplicas: number,
  request: (replicas: number) => Promise<unknown>,
): Promise<string | undefined> {
  let problem: string | undefined;
  for (let replicas = stream.replicas ?? DEFAULT_REPLICAS; replicas >= minReplicas; replicas -= 1) {
    try {
      await request(replicas);
      return undefined;
    } catch (error) {
      if (!isApiError(error, PLACEMENT_CODES)) throw error;
      problem = error.message;
    }
    if (stream.replicas !== undefined) return problem;
  }
  return problem;
}

/** Deletes the stream with all messages, if the stream exists. A running relay then creates a new stream. */
export async function deleteEventStream(jsm: JetStreamManager, stream: EventStream): Promise<void> {
  if (await findInfo(() => jsm.streams.info(stream.name))) await jsm.streams.delete(stream.name);
}

async function findInfo<Info>(request: () => Promise<Info>): Promise<Info | undefined> {
  try {
    return await request();
  } catch (error) {
    if (isApiError(error, NOT_FOUND_CODES)) return undefined;
    throw error;
  }
}

export function isApiError(error: unknown, codes: readonly number[]): error is NatsError {
  return error instanceof NatsError && codes.includes(error.api_error?.err_code ?? 0);
}
