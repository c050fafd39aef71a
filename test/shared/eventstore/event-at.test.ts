import { stat } from "node:fs/promises";
import { Readable } from "node:stream";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { DifferentLogError, requireCheckpointInLog } from "../../../projection/checkpoints/same-log.ts";
import { readEventAt } from "../../../shared/eventstore/read-log.ts";
import { createEvent } from "../../conformance/log-under-test.ts";
import { createClient } from "../../deploy/eventstore/log-process.ts";
import { flipBit, getLogPath } from "../../deploy/eventstore/stored-log.ts";
import { startSeparateLog } from "../../support/own-log.ts";
import { getRejection } from "../../support/rejection.ts";

describe("reading the event at a log position", () => {
  it("reading the event at a log position fails if the record is damaged", async () => {
    const { dir, port } = await startSeparateLog();
    const client = createClient(port);
    await client.appendToStream("before", createEvent(1));
    const offset = (await stat(getLogPath(dir))).size;
    const damagedEvent = createEvent(2);
    const { position } = await client.appendToStream("damaged", damagedEvent);
    await flipBit(getLogPath(dir), offset + 100);
    const { commit } = position!;
    expect((await getRejection(readEventAt(client, commit))).message).to.include("checksum");
    const checkpoint = { position: commit, eventId: damagedEvent.id };
    const error = await getRejection(requireCheckpointInLog(client, "the relay", checkpoint));
    expect(error).not.to.be.instanceOf(DifferentLogError);
  });

  const createRefusingClient = (code: number, message = "refused") => {
    async function* read() {
      yield* [];
      throw Object.assign(new Error(message), { code });
    }
    const readAll = () => Readable.from(read());
    return { readAll } as unknown as EventStoreDBClient;
  };

  it("reading the event at a log position returns no event if the server rejects the position as invalid", async () => {
    expect(await readEventAt(createRefusingClient(3), 7n)).to.equal(undefined);
    expect(await readEventAt(createRefusingClient(2, "Unexpected ReadAllResult: InvalidPosition"), 7n)).to.equal(
      undefined,
    );
  });

  for (const [name, code, text] of [
    ["UNKNOWN", 2, "refused"],
    ["PERMISSION_DENIED", 7, "refused"],
    ["INTERNAL", 13, "the event log is unavailable"],
    ["DATA_LOSS", 15, "refused"],
  ] as const)
    it(`reading the event at a log position fails if the server returns the gRPC status ${name}`, async () => {
      expect((await getRejection(readEventAt(createRefusingClient(code), 7n))).message).to.equal(text);
    });
});
