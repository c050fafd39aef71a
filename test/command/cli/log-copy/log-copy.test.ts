import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { CopiedLog } from "../../../../command/cli/log-copy/copied-log.ts";
import { copyLog } from "../../../../command/cli/log-copy/copy-log.ts";
import { encodeEvent } from "../../../../command/cli/log-copy/stored-event.ts";
import { buildNodeCommand } from "../../../../deploy/local/setup/project.ts";
import type { DomainError } from "../../../../shared/domain/domain-error.ts";
import { appendEvents, type ProposedEvent } from "../../../../shared/eventstore/append.ts";
import { StartError } from "../../../../shared/runtime/run-service.ts";
import { connectToLog } from "../../../support/connections.ts";
import { startGrpcProxy } from "../../../support/grpc-proxy.ts";
import { startRefusingLog } from "../../../support/refusing-log.ts";
import { getRejection } from "../../../support/rejection.ts";
import { releaseLater, useResource } from "../../../support/resources.ts";
import { runClinic } from "../terminal.ts";
import { type ListedEvent, runCopy, startTestLog, type TestLog } from "./copied-logs.ts";

function createEvent(data: string | Buffer = "{}", overrides: Partial<ProposedEvent> = {}): ProposedEvent {
  const type = "Noted";
  return {
    id: randomUUID(),
    type,
    contentType: "application/json",
    data: Buffer.from(data),
    metadata: Buffer.from('{"a":1}'),
    ...overrides,
  };
}

const openLog = (url: string) => {
  const { signal } = new AbortController();
  const log = new CopiedLog("target", url, { signal, waitSeconds: 0, writeNote: () => undefined });
  releaseLater(() => log.close());
  return log;
};

const encode = (more: { type?: string; revision?: bigint }) => {
  const event = { ...createEvent(), stream: "note-1", revision: 0n, position: { commit: 9n, prepare: 9n }, ...more };
  return { ...event, encodedBytes: encodeEvent(event) };
};

/** Omits events that a copy does not contain. Clears the id of a tombstone, because each server generates its own. */
function selectCopiedEvents(events: ListedEvent[]): ListedEvent[] {
  return events
    .filter(({ stream }) => !stream.replace(/^\$\$/, "").startsWith("$"))
    .map((event) => (event.type === "$streamDeleted" ? { ...event, id: "" } : event));
}

describe("the copy of an event log", () => {
  const source = useResource(startTestLog, "test");
  const target = useResource(startTestLog, "test");

  const append = (log: TestLog, stream: string, expectedRevision: bigint, ...events: ProposedEvent[]) =>
    appendEvents(log.client, stream, expectedRevision, events, 15_000);
  const expectEqualLogs = async () =>
    expect(selectCopiedEvents(await target.listEvents())).to.deep.equal(selectCopiedEvents(await source.listEvents()));

  it("a copy contains the exact bytes of all events, in the same order", async () => {
    await append(source, "note-1", -1n, createEvent('{ "weightKg": 1.0,\n "id": 12345678901234567890 }'));
    await append(source, "note-2", -1n, createEvent('{"name":"\\u00e9","a":1e2,"a":2}'), createEvent("not JSON"));
    const binaryFields = { contentType: "application/octet-stream", metadata: Buffer.from([0, 255, 128]) };
    await append(source, "note-1", 0n, createEvent(Buffer.from([0, 1, 254, 255]), binaryFields));
    await append(source, "животное-1", -1n, createEvent("", { metadata: Buffer.alloc(0), type: "Тип" }));
    await append(source, "$system-1", -1n, createEvent());
    await append(source, "note-2", 1n, createEvent());
    expect(await runCopy(source, target)).to.deep.include({ code: 0 });
    const copiedEvents = await target.listEvents();
    expect(copiedEvents.map(({ stream, revision }) => `${revision}@${stream}`)).to.deep.equal([
      ...["0@note-1", "0@note-2", "1@note-2", "1@note-1", "0@животное-1", "2@note-2"],
    ]);
    await expectEqualLogs();
  });

  it("a copy contains stream metadata, deletions and tombstones", async () => {
    for (const name of ["limited", "deleted", "gone"])
      await append(source, `note-${name}`, -1n, createEvent(), createEvent());
    await append(source, "$$note-limited", -1n, createEvent('{"$maxCount":1.0, "x":1}', { type: "$metadata" }));
    await source.client.deleteStream("note-deleted");
    await source.client.tombstoneStream("note-gone");
    await source.client.tombstoneStream("note-never-written");
    await append(source, "$$$system", -1n, createEvent("{}", { type: "$metadata" }));
    await append(source, "note-limited", 1n, createEvent());
    expect(await runCopy(source, target)).to.deep.include({ code: 0 });
    await expectEqualLogs();
    const { metadata } = await target.client.getStreamMetadata("note-limited");
    expect(metadata).to.include({ maxCount: 1, x: 1 });
    // A second run compares tombstones, too.
    expect((await runCopy(source, target)).outputLines[0]).to.equal("log copy: 0 events copied");
  });

  it("a second copy appends only the events that were written to the source since the first copy", async () => {
    await append(source, "note-1", -1n, createEvent(), createEvent());
    expect((await runCopy(source, target)).outputLines[0]).to.equal("log copy: 2 events copied");
    await append(source, "note-1", 1n, createEvent());
    await append(source, "note-2", -1n, createEvent());
    const { code, outputLines: out, errorLines: err } = await runCopy(source, target);
    expect([code, out[0], out.length]).to.deep.equal([0, "log copy: 2 events copied", 2]);
    expect(out[1]).to.match(/^log copy: the logs are equal: 4 events, SHA-256 [0-9a-f]{64}$/);
    expect(err.every((line) => /^log copy: \d+ events (compared|copied|verified) \(\d+ %\)$/.test(line))).to.equal(
      true,
    );
    await expectEqualLogs();
  });

  it("a copy continues with a stream whose deletion and restoration both logs contain", async () => {
    const metadata = ['{"$tb":9223372036854775807}', "{}"].map((data) => createEvent(data, { type: "$metadata" }));
    const event = createEvent();
    for (const log of [source, target]) {
      await append(log, "note-1", -1n, event);
      await append(log, "$$note-1", -1n, ...metadata);
    }
    await append(source, "note-1", 0n, createEvent());
    expect((await runCopy(source, target)).outputLines[0]).to.equal("log copy: 1 event copied");
    await expectEqualLogs();
  });

  it("a copy splits long streams and large events into several appends", async () => {
    const megabyteEvent = createEvent(Buffer.alloc(1024 * 1024 - 100, "x"));
    for (let start = 0n; start < 1_200n; start += 100n)
      await append(source, "note-1", start - 1n, ...Array.from({ length: 100 }, () => createEvent()));
    const createLargeEvent = () => createEvent(Buffer.alloc(300_000, "y"));
    await append(source, "note-1", 1_199n, createLargeEvent(), createLargeEvent(), createLargeEvent());
    await append(source, "note-1", 1_202n, megabyteEvent);
    await append(source, "note-1", 1_203n, createEvent());
    expect((await runCopy(source, target)).outputLines[0]).to.equal("log copy: 1205 events copied");
    await expectEqualLogs();
  });

  it("a copy while other programs write to the source ends, and another copy completes it", async () => {
    const writeEvents = async (name: string) => {
      for (let n = 0; n < 60; n += 1) await append(source, `${name}-1`, BigInt(n) - 1n, createEvent(`{"n":${n}}`));
    };
    await writeEvents("first");
    const [copyResult] = await Promise.all([runCopy(source, target), writeEvents("second"), writeEvents("third")]);
    expect(copyResult.code, copyResult.errorLines.join("\n")).to.equal(0);
    expect((await runCopy(source, target)).code).to.equal(0);
    expect(await target.listEvents()).to.have.length(180);
    await expectEqualLogs();
  });

  /**
   * Creates streams of one event in the source, and a proxy to the target.
   *
   * @param onAppend called for each append to the target; can refuse the append
   */
  async function prepareAppends(streamCount: number, onAppend: (refuse: () => void) => void) {
    for (let n = 0; n < streamCount; n += 1) await append(source, `note-${n}`, -1n, createEvent());
    const proxy = await startGrpcProxy(target.url);
    proxy.onStep = (step, call) => {
      if (step === "sent" && !call.path.endsWith("/Read")) onAppend(() => call.refuse(14));
    };
    return { EVENTSTORE_URL: source.url, COPY_TARGET_URL: proxy.url };
  }

  it("a copy that is killed, or stops on a signal and says how to continue, leaves the first events, and another copy completes the target", async function () {
    this.timeout(300_000);
    let onAppend = () => {};
    const env = await prepareAppends(100, () => onAppend());
    let copiedCount = 0;
    for (const signal of ["SIGKILL", "SIGINT", "SIGTERM"] as const) {
      const { command, args } = buildNodeCommand("command/cli/main.ts", ["log", "copy"]);
      const child = spawn(command, args, { env: { ...process.env, ...env } });
      releaseLater(() => child.kill("SIGKILL"));
      let appendCount = 0;
      onAppend = () => {
        appendCount += 1;
        if (appendCount === 5) child.kill(signal);
      };
      const output = Promise.all([text(child.stdout), text(child.stderr)]);
      const [code] = await once(child, "close");
      const [out, err] = await output;
      if (signal !== "SIGKILL") {
        expect([code, out], err).to.deep.equal([130, ""]);
        expect(err).to.match(
          /^log copy: interrupted after \d+ copied events; run the same command again to continue\n$/m,
        );
      }
      const copiedEvents = await target.listEvents();
      expect(copiedEvents.length, signal).to.be.within(copiedCount + 1, 99);
      expect(copiedEvents).to.deep.equal((await source.listEvents()).slice(0, copiedEvents.length));
      copiedCount = copiedEvents.length;
    }
    const { outputLines } = await runCopy(source, target);
    expect(outputLines[0]).to.equal(`log copy: ${100 - copiedCount} events copied`);
    await expectEqualLogs();
  });

  it("a copy waits for a target that is unavailable for a moment, and copies each event once", async () => {
    let appendCount = 0;
    const env = await prepareAppends(30, (refuse) => {
      appendCount += 1;
      if (appendCount > 10 && appendCount < 14) refuse();
    });
    const { code, errorLines } = await runClinic(["log", "copy"], { env });
    expect(code, errorLines.join("\n")).to.equal(0);
    expect(errorLines.join("\n"))
      .to.match(/^log copy: the target log does not answer; retrying for up to \d+ s$/m)
      .and.contain("log copy: the target log is available again");
    await expectEqualLogs();
  });

  it("the progress of a copy never exceeds 100 %, even if another program appends to the target", async () => {
    const targetEvents = [undefined, encode({}), encode({})];
    const openFake = (events: unknown[]) =>
      ({ share: 1, next: async () => events.shift(), append: async () => undefined }) as unknown as CopiedLog;
    const shares: number[] = [];
    const onProgress = (_: string, __: number, share: number) => shares.push(share);
    const { signal } = new AbortController();
    const logs = { source: openFake([]), target: openFake(targetEvents) };
    const error = await getRejection(copyLog({ ...logs, verifyOnly: false, signal, onProgress }));
    expect([(error as DomainError).code, shares]).to.deep.equal(["target_differs", [1, 1, 1]]);
  });

  it("an empty log can be copied", async () => {
    const { code, outputLines: out } = await runCopy(source, target, ["--json"]);
    expect(code).to.equal(0);
    expect(JSON.parse(out.join())).to.deep.include({ end: "complete", copied: 0, events: 0 });
  });

  describe("a refused copy", () => {
    const expectRefusal = async (pattern: RegExp) => {
      const eventsBefore = await target.listEvents();
      const { code, outputLines: out, errorLines: err } = await runCopy(source, target);
      expect({ code, out }).to.deep.equal({ code: 3, out: [] });
      expect(err.at(-1)).to.match(pattern);
      expect(await target.listEvents()).to.deep.equal(eventsBefore);
    };

    it("a copy is refused if the target contains an event that the source lacks", async () => {
      await append(source, "note-1", -1n, createEvent());
      await append(target, "other-1", -1n, createEvent());
      await expectRefusal(
        /^clinic: refused: the target is not a copy: after 0 equal events, the source continues with revision 0 of stream note-1, but the target with revision 0 of stream other-1 \(target_differs\)$/,
      );
    });

    it("a copy is refused if the target contains more events than the source", async () => {
      const event = createEvent();
      await append(source, "note-1", -1n, event);
      await append(target, "note-1", -1n, event, createEvent());
      await expectRefusal(/the source ends after 1 event, but the target continues with revision 1 of stream note-1/);
    });

    it("a copy is refused if an event of the target has other data", async () => {
      const event = createEvent('{"a":1.0}');
      await append(source, "note-1", -1n, event, createEvent());
      await append(target, "note-1", -1n, { ...event, data: Buffer.from('{"a":1}') });
      await expectRefusal(/with revision 0 of stream note-1 with another data \(target_differs\)$/);
    });

    it("a copy refuses a stream that was written to after its deletion", async () => {
      await append(source, "note-1", -1n, createEvent());
      await source.client.deleteStream("note-1");
      expect((await runCopy(source, target)).code).to.equal(0);
      await source.client.appendToStream("note-1", jsonEvent({ type: "Noted", data: {} }));
      const { code, errorLines } = await runCopy(source, target);
      expect([code, errorLines.at(-1)?.includes("written to again after its deletion")]).to.deep.equal([3, true]);
    });

    it("an event after a gap in its stream is refused, and nothing of the stream is written", async () => {
      const log = openLog(target.url);
      const refusal = await log.append([encode({ revision: 5n })]).catch((error: DomainError) => error);
      expect(refusal).to.include({ name: "DomainError", code: "revision_gap" });
      expect(refusal?.message).to.contain("stream note-1 has no events between the start and revision 5");
      expect(await target.listEvents()).to.deep.equal([]);
    });
  });

  describe("log copy --verify-only", () => {
    it("the comparison reports the first missing event, and writes nothing", async () => {
      await append(source, "note-1", -1n, createEvent(), createEvent());
      await runCopy(source, target);
      await append(source, "note-1", 1n, createEvent());
      const { code, outputLines, errorLines } = await runCopy(source, target, ["--verify-only"]);
      expect([code, outputLines]).to.deep.equal([3, []]);
      expect(errorLines.at(-1)).to.contain(
        "the target is not a copy: the target ends after 2 events, but the source continues with revision 2 of stream note-1",
      );
      expect(await target.listEvents()).to.have.length(2);
    });

    it("the comparison of equal logs exits with 0 and prints a hash", async () => {
      await append(source, "note-1", -1n, createEvent(), createEvent());
      await runCopy(source, target);
      const { code, outputLines: out } = await runCopy(source, target, ["--verify-only", "--json"]);
      expect(code).to.equal(0);
      const { sha256, ...otherFields } = JSON.parse(out.join());
      expect(otherFields).to.deep.equal({ command: "log copy", end: "complete", copied: 0, events: 2 });
      expect(sha256).to.match(/^[0-9a-f]{64}$/);
    });
  });

  describe("wrong settings", () => {
    for (const [problem, target, line] of [
      ["missing", undefined, /^clinic: settings: COPY_TARGET_URL is missing \(.*\)$/],
      ["not a connection string", "http://db.example", /^clinic: settings: COPY_TARGET_URL must be like esdb:/],
      [
        "refused by the client",
        "esdb://admin:secret@db.example?tls=x",
        /^clinic: COPY_TARGET_URL: the connection string must contain true or false$/,
      ],
    ] as const)
      it(`log copy exits with 2 and names COPY_TARGET_URL if it is ${problem}`, async () => {
        const {
          code,
          outputLines: out,
          errorLines: err,
        } = await runClinic(["log", "copy"], { env: { EVENTSTORE_URL: source.url, COPY_TARGET_URL: target } });
        expect({ code, out, lines: err.length }).to.deep.equal({ code: 2, out: [], lines: 1 });
        expect(err[0]).to.match(line).and.not.contain("secret");
      });

    it("log copy exits with 2 if both settings name the same log", async () => {
      const { code, errorLines: err } = await runCopy(source, source);
      expect({ code, err }).to.deep.equal({
        code: 2,
        err: ["clinic: COPY_TARGET_URL must differ from EVENTSTORE_URL"],
      });
    });

    it("log copy exits with 4 and one line without secrets if a server cannot be reached", async () => {
      const unreachableLog = { url: "esdb://admin:secret@127.0.0.1:1?tls=false" };
      const formatExpectedLine = (name: string, setting: string) =>
        `clinic: the ${name} log at esdb://127.0.0.1:1 does not respond; check ${setting} and run the command again`;
      expect(await runCopy(source, unreachableLog)).to.deep.equal({
        code: 4,
        outputLines: [],
        errorLines: [formatExpectedLine("target", "COPY_TARGET_URL")],
      });
      expect(await runCopy(unreachableLog, target)).to.deep.equal({
        code: 4,
        outputLines: [],
        errorLines: [formatExpectedLine("source", "EVENTSTORE_URL")],
      });
    });
  });

  for (const [action, more] of [
    ["append to", {}],
    ["tombstone", { type: "$streamDeleted", revision: 2n ** 63n - 1n }],
  ] as const)
    it(`the error names the stream if the user may not ${action} it in the target`, async () => {
      const refusingLog = await startRefusingLog(7);
      const refusal = await openLog(refusingLog.url)
        .append([encode(more)])
        .catch((error: Error) => error);
      expect(refusal).to.be.instanceOf(StartError);
      expect((refusal as Error).message).to.match(/the user in COPY_TARGET_URL write stream note-1; use a member of /);
      refusingLog.stop();
    });

  it("an append of bytes can be repeated without effect", async () => {
    const client = connectToLog(target.url);
    const events = [createEvent(), createEvent()];
    await appendEvents(client, "note-1", -1n, events, 15_000);
    await appendEvents(client, "note-1", -1n, events, 15_000);
    expect(await target.listEvents()).to.have.length(2);
  });
});
