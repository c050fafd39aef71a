import type { EventStoreDBClient } from "@eventstore/db-client";
import type { StreamsClient } from "@eventstore/db-client/generated/streams_grpc_pb.js";
import { createRawClient, createReadOptions, sendRead } from "../../../deploy/eventstore/raw-client.ts";
import { connectToLog } from "../../../support/connections.ts";
import { startSeparateLog } from "../../../support/own-log.ts";
import { type CliResult, runClinic } from "../terminal.ts";

/** An event of a log. `data` and `metadata` are in hex. */
export interface ListedEvent {
  stream: string;
  revision: string;
  id: string;
  type: string;
  contentType: string;
  data: string;
  metadata: string;
}

/** Reads all events of a log over gRPC, without the code under test. */
export async function listEvents(client: StreamsClient): Promise<ListedEvent[]> {
  const { responses, error } = await sendRead(client, createReadOptions().setCount(String(Number.MAX_SAFE_INTEGER)));
  if (error) throw error;
  return responses.flatMap((response) => {
    const event = response.getEvent()?.getEvent();
    if (!event) return [];
    const properties = event.getMetadataMap();
    return {
      stream: Buffer.from(event.getStreamIdentifier()!.getStreamName_asU8()).toString(),
      revision: event.getStreamRevision(),
      id: event.getId()!.getString(),
      type: properties.get("type")!,
      contentType: properties.get("content-type")!,
      data: Buffer.from(event.getData_asU8()).toString("hex"),
      metadata: Buffer.from(event.getCustomMetadata_asU8()).toString("hex"),
    };
  });
}

/** A log on its own server. */
export interface TestLog {
  url: string;
  client: EventStoreDBClient;
  listEvents(): Promise<ListedEvent[]>;
}

export async function startTestLog(): Promise<TestLog> {
  const { eventstoreUrl: url, port } = await startSeparateLog();
  const rawClient = createRawClient(port);
  return { url, client: connectToLog(url), listEvents: () => listEvents(rawClient) };
}

export function runCopy(
  source: Pick<TestLog, "url">,
  target: Pick<TestLog, "url">,
  options: string[] = [],
): Promise<CliResult> {
  return runClinic(["log", "copy", ...options], { env: { EVENTSTORE_URL: source.url, COPY_TARGET_URL: target.url } });
}
