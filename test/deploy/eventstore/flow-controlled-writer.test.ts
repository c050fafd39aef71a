import { EventEmitter } from "node:events";
import { expect } from "chai";
import {
  FlowControlledWriter,
  type ReadCall,
} from "../../../deploy/local/eventstore/protocol/flow-controlled-writer.ts";

const PAGE_BYTES = 1024 * 1024;

describe("flow control of a read", () => {
  it("a small message for a slow client is copied, so that the page with the message is not kept in memory", () => {
    const messages: Uint8Array[] = [];
    const call = Object.assign(new EventEmitter(), {
      writableLength: 1,
      writableNeedDrain: true,
      write: (message: Uint8Array) => messages.push(message),
    });
    const writer = new FlowControlledWriter(call as unknown as ReadCall);
    const page = Buffer.alloc(PAGE_BYTES, 7);
    writer.send(page.subarray(100, 300));
    writer.send(page.subarray(0, PAGE_BYTES / 2));
    expect(messages[0]).to.deep.equal(page.subarray(100, 300));
    expect(messages[0]!.buffer.byteLength).to.be.at.most(Buffer.poolSize);
    expect(messages[1]!.buffer, "a large message is not copied").to.equal(page.buffer);
  });
});
