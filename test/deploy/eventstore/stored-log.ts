/** Writes and reads logs without a server, and damages their files. */

import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ANY } from "../../../deploy/local/eventstore/model/append-rules.ts";
import { type ProposedEvent, readStreamName } from "../../../deploy/local/eventstore/model/record.ts";
import { readAllEvents, readStreamEvents } from "../../../deploy/local/eventstore/storage/log-reader.ts";
import type { WriteRequest } from "../../../deploy/local/eventstore/store/staged-group.ts";
import { Store, type StoreOptions } from "../../../deploy/local/eventstore/store/store.ts";
import { getRejection } from "../../support/rejection.ts";

const NO_DEADLINE = Number.POSITIVE_INFINITY;

export function openStore(dir: string, options: Partial<StoreOptions> = {}): Promise<Store> {
  return Store.open({ dir, ...options });
}

export function createProposedEvent(text: string): ProposedEvent {
  const content = { data: Buffer.from(JSON.stringify({ text })), metadata: Buffer.from('{"by":"test"}') };
  return { id: randomUUID(), type: "Noted", contentType: "application/json", ...content };
}

/** Creates a write of new events that expects no specific revision. */
export function createAppendRequest(stream: string, texts: readonly string[]): WriteRequest {
  return { kind: "append", stream, expectedRevision: ANY, events: texts.map(createProposedEvent) };
}

export function submit(store: Store, write: WriteRequest) {
  return store.submit(write, 1, NO_DEADLINE);
}

/** Appends events one by one to several streams, and waits until all are acknowledged. */
export async function appendEvents(store: Store, eventCount: number, streamCount = 20): Promise<void> {
  const groupSize = 25;
  for (let doneCount = 0; doneCount < eventCount; doneCount += groupSize) {
    const writes = Array.from({ length: Math.min(groupSize, eventCount - doneCount) }, (_, n) =>
      submit(store, createAppendRequest(`note-${(doneCount + n * 7) % streamCount}`, [`number ${doneCount + n}`])),
    );
    for (const { outcome } of await Promise.all(writes))
      if (outcome !== "written") throw new Error(`an append was ${outcome}`);
  }
}

export async function createLog(dir: string, eventCount: number): Promise<void> {
  const store = await openStore(dir);
  await appendEvents(store, eventCount);
  await store.close();
}

/** Opens a log, changes it, and returns its content. */
export async function changeAndRead(dir: string, change: (store: Store) => Promise<unknown>): Promise<LogContent> {
  const store = await openStore(dir);
  try {
    await change(store);
    return await readContent(store);
  } finally {
    await store.close();
  }
}

/** Returns the error message of a failed start. */
export async function getStartError(dir: string): Promise<string> {
  const { message } = await getRejection(openStore(dir));
  if (message.includes("\n")) throw new Error(`the error has more than one line: ${message}`);
  return message;
}

/** All events of a log, in several orders. Each event is a text with its position and stored bytes. */
export interface LogContent {
  readonly forwardEvents: readonly string[];
  readonly backwardEvents: readonly string[];
  readonly streamEvents: readonly string[];
}

/** Reads all events forwards, backwards and by stream. */
export async function readContent(store: Store): Promise<LogContent> {
  const forwardEvents = await readAll(store, false);
  const backwardEvents = await readAll(store, true);
  const names = [...new Set(forwardEvents.map((event) => event.stream))].sort();
  const streamEvents: string[] = [];
  for (const name of names) {
    const { lastRevision } = store.getStreamState(name);
    if (lastRevision < 0) continue;
    for await (const page of readStreamEvents(store.log, name, 0, lastRevision)) {
      for (const { position, record } of page) streamEvents.push(`${position} ${record.toString("latin1")}`);
    }
  }
  return { forwardEvents: forwardEvents.map(getText), backwardEvents: backwardEvents.map(getText), streamEvents };
}

interface ReadEvent {
  readonly stream: string;
  readonly text: string;
}

const getText = ({ text }: ReadEvent) => text;

async function readAll(store: Store, isBackwards: boolean): Promise<ReadEvent[]> {
  const fromPosition = isBackwards ? Number.MAX_SAFE_INTEGER : 0;
  const events: ReadEvent[] = [];
  for await (const page of readAllEvents(store.log, fromPosition, isBackwards)) {
    for (const { position, record } of page)
      events.push({ stream: readStreamName(record), text: `${position} ${record.toString("latin1")}` });
  }
  return events;
}

/** Returns the path of the file with the acknowledged end. */
export function getEndFilePath(dir: string): string {
  return join(dir, "events", "acknowledged");
}

export function getLogPath(dir: string): string {
  return join(dir, "events", "log");
}

/** Flips one bit of a file. @param offsetOrFraction offset in bytes, or a fraction of the file size if below 1 */
export async function flipBit(path: string, offsetOrFraction: number): Promise<void> {
  const bytes = await readFile(path);
  const offset = offsetOrFraction < 1 ? Math.floor(bytes.length * offsetOrFraction) : offsetOrFraction;
  bytes[offset] = (bytes[offset] ?? 0) ^ 4;
  await writeFile(path, bytes);
}
