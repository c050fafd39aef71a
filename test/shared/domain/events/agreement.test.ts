import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { z } from "zod";
import { getFold } from "../../../../command/audit/state/replay.ts";
import { categories } from "../../../../shared/domain/events/catalog.ts";
import { type Category, toStreamName } from "../../../../shared/domain/events/category.ts";
import { EventSchemaError, parseStoredEvent } from "../../../../shared/domain/events/stored-event.ts";
import { createSampleData } from "../../../support/extreme-values.ts";
import { createStoredMetadata, findStream } from "../../../support/stored-metadata.ts";

const allCategories: readonly Category[] = categories;

/** One event of each type, with matching stream and metadata. */
const samples = allCategories.flatMap((category) =>
  Object.entries(category.events).map(([type, schema]) => {
    const event = { type, data: createSampleData(schema as z.ZodObject) };
    return { category, ...event, streamId: findStream(event) ?? "", metadata: createStoredMetadata(event) };
  }),
);

describe("stream, data and metadata of an event", () => {
  it("an event of every type is readable in the stream and with the clinic that its data names", () => {
    expect(samples.length).to.be.greaterThan(80);
    for (const { type, data, streamId, metadata } of samples)
      expect(parseStoredEvent({ type, data, streamId, metadata }).type).to.equal(type);
  });

  it("an event of every type is unreadable in the stream of another object, or of another category", () => {
    for (const { category, type, data, streamId, metadata } of samples) {
      const id = streamId.slice(streamId.indexOf("-") + 1);
      const otherCategories = allCategories.filter((other) => other !== category);
      const otherStreams = [
        toStreamName(category, randomUUID()),
        ...otherCategories.map((other) => toStreamName(other, id)),
      ];
      for (const otherStream of otherStreams)
        expect(() => parseStoredEvent({ type, data, streamId: otherStream, metadata }), `${type} in ${otherStream}`)
          .to.throw(EventSchemaError)
          .with.property("message", `${type} is in the stream of another object`);
    }
  });

  it("an event of every type is unreadable if its metadata names another clinic than its data, or no clinic", () => {
    const namingSamples = samples.filter(({ data }) => "clinicId" in data);
    expect(namingSamples.length).to.be.greaterThan(20);
    for (const { type, data, streamId, metadata } of namingSamples)
      for (const clinicId of [randomUUID(), data.clinicId === null ? randomUUID() : null])
        expect(() => parseStoredEvent({ type, data, streamId, metadata: { ...metadata, clinicId } }), type)
          .to.throw(EventSchemaError)
          .with.property("message", `${type} names another clinic than its metadata`);
  });

  it("an event of every type can be folded without the events before it, which an operator may have deleted", () => {
    for (const { type, data, streamId, metadata } of samples) {
      const event = { ...parseStoredEvent({ type, data, streamId, metadata }), id: randomUUID(), stream: streamId };
      expect(() => getFold(streamId)(undefined, { ...event, revision: 1n, position: 1n }), type).to.not.throw();
    }
  });

  it("an event names the id of its stream in one member of its data, except in these categories", () => {
    const membersByCategory = new Map<string, Set<string>>();
    for (const { category, type, data, streamId } of samples) {
      const members = membersByCategory.get(category.name) ?? new Set();
      membersByCategory.set(category.name, members);
      for (const name of Object.keys(data)) {
        const otherStream = findStream({ type, data: { ...data, [name]: randomUUID() } });
        if (otherStream !== streamId) members.add(name);
      }
    }
    const exceptions = [...membersByCategory].filter(([, members]) => members.size !== 1);
    expect(Object.fromEntries(exceptions.map(([name, members]) => [name, [...members]]))).to.deep.equal({
      // A test of an endpoint has a stream of its own.
      webhookEndpoint: ["endpointId", "testId"],
      resourceDay: ["resourceId", "day"],
      // There is one such stream.
      auditTree: [],
      quarantine: [],
    });
  });
});
