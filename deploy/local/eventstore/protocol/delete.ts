/** Streams.Delete and Streams.Tombstone. A deleted stream accepts later appends; a tombstoned stream does not. */
import type { DeleteReq, DeleteResp, TombstoneReq, TombstoneResp } from "@eventstore/db-client/generated/streams_pb.js";
import type { Deadline } from "@grpc/grpc-js";
import { streams } from "../model/pb.ts";
import { getOriginalStream } from "../model/stream-state.ts";
import type { Store } from "../store/store.ts";
import { createInvalidArgumentError, createStreamDeletedError, createWrongVersionError } from "./errors.ts";
import { parseSpecialRevision, parseUint64, parseWritableStreamName } from "./request-parts.ts";
import { writeOrThrow } from "./write-or-throw.ts";

/** Hides the events of a stream from reads of the stream. The events stay in the log. */
export async function softDeleteStream(store: Store, request: DeleteReq, deadline: Deadline): Promise<DeleteResp> {
  const position = await deleteStream(store, "soft-delete", request.getOptions(), deadline);
  const message = new streams.DeleteResp.Position();
  return new streams.DeleteResp().setPosition(message.setCommitPosition(position).setPreparePosition(position));
}

/** Deletes a stream permanently. Later reads and appends fail. */
export async function tombstoneStream(store: Store, request: TombstoneReq, deadline: Deadline): Promise<TombstoneResp> {
  const position = await deleteStream(store, "tombstone", request.getOptions(), deadline);
  const message = new streams.TombstoneResp.Position();
  return new streams.TombstoneResp().setPosition(message.setCommitPosition(position).setPreparePosition(position));
}

async function deleteStream(
  store: Store,
  kind: "soft-delete" | "tombstone",
  options: DeleteReq.Options | TombstoneReq.Options | undefined,
  deadline: Deadline,
): Promise<string> {
  if (options === undefined) throw createInvalidArgumentError("A request to delete a stream must contain options.");
  const stream = parseWritableStreamName(options.getStreamIdentifier());
  if (getOriginalStream(stream) !== undefined) throw createInvalidArgumentError("A metadata stream cannot be deleted.");
  const expectedRevision = options.hasRevision() ? parseUint64(options.getRevision()) : parseSpecialRevision(options);
  const writeResult = await writeOrThrow(store, { kind, stream, expectedRevision, events: [] }, 0, deadline);
  switch (writeResult.outcome) {
    case "deleted":
      throw createStreamDeletedError(stream);
    case "wrong-revision":
      throw createWrongVersionError(stream, expectedRevision, writeResult.currentRevision);
    case "written":
      return String(writeResult.position);
  }
}
