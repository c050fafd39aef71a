/** Worker of `readInThread`. Sends the next items of the log after the receiver has received the previous items. */
import { once } from "node:events";
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import type { SubscriptionItem } from "../../shared/eventstore/subscription.ts";
import { BoundedBuffer } from "../../shared/runtime/bounded-buffer.ts";
import { type ReaderInput, readInCallingThread } from "./read-log.ts";

const MAX_ITEMS_PER_MESSAGE = 500;
const MAX_BUFFERED_ITEMS = 2 * MAX_ITEMS_PER_MESSAGE;

const { eventstoreUrl, after } = workerData as ReaderInput;
const port = parentPort as MessagePort;
const client = connectEventStore(eventstoreUrl, "projection-reader");
const buffer = new BoundedBuffer<SubscriptionItem>(MAX_BUFFERED_ITEMS);

// The caller ends the thread, so reading needs no signal.
const { signal } = new AbortController();
await Promise.all([fillBuffer().finally(() => buffer.close()), sendItems()]);
await client.dispose();

async function fillBuffer(): Promise<void> {
  for await (const item of readInCallingThread(client)({ after, signal })) {
    const spacePromise = buffer.push(item);
    if (spacePromise) await spacePromise;
  }
}

async function sendItems(): Promise<void> {
  for (;;) {
    const items = await buffer.take(MAX_ITEMS_PER_MESSAGE);
    if (items.length === 0) return;
    const receivedPromise = once(port, "message");
    port.postMessage(items);
    await receivedPromise;
  }
}
