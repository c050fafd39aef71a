/** Generators of the calls that the differential test sends to both servers. */
import { ANY, NO_STREAM, STREAM_EXISTS } from "@eventstore/db-client";
import fc from "fast-check";
import {
  type Call,
  type DeletionExpectation,
  EVENT_COUNT,
  EVENT_TYPES,
  type EventChoice,
  type Expectation,
  type FilterChoice,
  STREAM_COUNT,
  type StartChoice,
} from "./calls.ts";

/** Generates one value often and the other values rarely. */
function mostly<T>(weight: number, frequentValue: T, ...rareValues: T[]): fc.Arbitrary<T> {
  return fc.oneof(
    { weight, arbitrary: fc.constant(frequentValue) },
    { weight: 1, arbitrary: fc.constantFrom(...rareValues) },
  );
}

const operation = <Name extends Call["operation"]>(name: Name) => fc.constant(name);
const stream = fc.nat({ max: STREAM_COUNT - 1 });
const offset = fc.oneof(
  { weight: 5, arbitrary: fc.constant(0) },
  { weight: 4, arbitrary: fc.integer({ min: -4, max: 2 }) },
);
const expectation: fc.Arbitrary<Expectation> = fc.oneof(
  { weight: 4, arbitrary: fc.constant<Expectation>(ANY) },
  { weight: 2, arbitrary: fc.constantFrom<Expectation>(NO_STREAM, STREAM_EXISTS) },
  { weight: 5, arbitrary: offset },
);
const deletionExpectation: fc.Arbitrary<DeletionExpectation> = fc.oneof(
  { weight: 4, arbitrary: fc.constant<DeletionExpectation>(ANY) },
  { weight: 1, arbitrary: fc.constant<DeletionExpectation>(NO_STREAM) },
  { weight: 4, arbitrary: offset },
);
const event: fc.Arbitrary<EventChoice> = fc.record({
  number: fc.nat({ max: EVENT_COUNT - 1 }),
  type: fc.constantFrom(...EVENT_TYPES),
  content: fc.oneof(
    { weight: 16, arbitrary: fc.constant<EventChoice["content"]>("json") },
    { weight: 6, arbitrary: fc.constantFrom<EventChoice["content"][]>("array", "text", "bytes", "empty") },
    { weight: 2, arbitrary: fc.constant<EventChoice["content"]>("large") },
    { weight: 1, arbitrary: fc.constant<EventChoice["content"]>("oversized") },
  ),
  hasMetadata: fc.boolean(),
});
const start = (max: number) =>
  fc.oneof<fc.Arbitrary<StartChoice>[]>(fc.constantFrom("start", "end"), fc.nat({ max }), fc.nat({ max: 3 }));
const maxCount = (min: number) => fc.option(fc.integer({ min, max: 6 }), { nil: undefined });
const cancelAfter = fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined, freq: 8 });

const append: fc.Arbitrary<Call> = fc.record({
  operation: operation("append"),
  stream,
  expectation,
  events: fc.array(event, { minLength: 0, maxLength: 4 }),
  method: fc.constantFrom("batch", "batch", "single", "lenient", "parts"),
});
const retry: fc.Arbitrary<Call> = fc.record({
  operation: operation("retry"),
  age: fc.nat({ max: 3 }),
  expectation: fc.option(expectation, { nil: undefined }),
  change: fc.constantFrom("none", "none", "none", "reverse", "firstOnly", "addEvent", "otherStream"),
});
const expiredAppend: fc.Arbitrary<Call> = fc.record({
  operation: operation("expiredAppend"),
  stream,
  event: event.filter(({ content }) => content !== "oversized"),
});

const setMetadata: fc.Arbitrary<Call> = fc.record({
  operation: operation("setMetadata"),
  stream,
  expectation,
  metadata: fc.oneof(
    fc.record({ maxCount: fc.nat({ max: 4 }) }),
    fc.record({ truncateBefore: fc.nat({ max: 6 }) }),
    fc.record({ maxCount: fc.nat({ max: 4 }), truncateBefore: fc.nat({ max: 6 }), owner: fc.constant("me") }),
    fc.constantFrom(
      { maxAge: 100_000, owner: "me" },
      { cacheControl: 3, owner: "me" },
      { acl: { readRoles: ["$all"] }, maxCount: 2 },
    ),
    fc.constant({}),
  ),
});
const setRawMetadata: fc.Arbitrary<Call> = fc.record({
  operation: operation("setRawMetadata"),
  stream,
  value: fc.oneof(
    fc.constantFrom<unknown>([], 7, "text", null, { $maxCount: "2" }, { $maxCount: 1.5 }, { $maxCount: -1 }),
    fc.constantFrom<unknown>({ $tb: -1 }, { $tb: 2 ** 63 }, { $tb: 2 ** 62 }, { $tb: "x", $maxCount: 2 }),
    fc.constantFrom<unknown>({ $maxAge: 2 ** 40, $maxCount: 2 }, { $cacheControl: -1, $tb: 2 }, { $maxCount: 2 ** 40 }),
    fc.constantFrom<unknown>({ $tmp: true, $maxCount: 2 }, { $tmp: 1, $maxCount: 2 }),
    fc.constantFrom<unknown>({ $acl: { $r: "$all" }, $maxCount: 2 }, { $acl: { $r: 7 }, $maxCount: 2 }),
    fc.constantFrom<unknown>({ $acl: null, $maxCount: 2 }, { $maxAge: -1, $maxCount: 2 }, { $maxAge: 1.5, $tb: 2 }),
  ),
  type: mostly(2, "$metadata", "Other"),
  isJson: mostly(5, true, false),
});
const getMetadata: fc.Arbitrary<Call> = fc.record({ operation: operation("getMetadata"), stream });
const outlive: fc.Arbitrary<Call> = fc.record({ operation: operation("outlive"), stream });

const read: fc.Arbitrary<Call> = fc.record({
  operation: operation("read"),
  stream,
  isMetadataStream: mostly(5, false, true),
  start: start(20),
  isBackwards: fc.boolean(),
  maxCount: maxCount(0),
  cancelAfter,
});
const readAll: fc.Arbitrary<Call> = fc.record({
  operation: operation("readAll"),
  start: start(12),
  isBackwards: fc.boolean(),
  maxCount: maxCount(1),
  cancelAfter,
});
const expiredRead: fc.Arbitrary<Call> = fc.record({ operation: operation("expiredRead"), stream });
const deletion: fc.Arbitrary<Call> = fc.record({
  operation: operation("delete"),
  stream,
  expectation: deletionExpectation,
});
const tombstone: fc.Arbitrary<Call> = fc.record({
  operation: operation("tombstone"),
  stream,
  expectation: deletionExpectation,
});

const filter: fc.Arbitrary<FilterChoice> = fc.record({
  kind: fc.constantFrom("none", "streamPrefix", "streamRegex", "typePrefix", "typeRegex", "noSystemEvents"),
  checkpointInterval: fc.integer({ min: 1, max: 3 }),
  maxSearchWindow: fc.constantFrom(undefined, 1, 8),
});
const subscribe: fc.Arbitrary<Call> = fc.record({ operation: operation("subscribe"), stream, start: start(8) });
const subscribeToAll: fc.Arbitrary<Call> = fc.record({
  operation: operation("subscribeToAll"),
  start: start(12),
  filter,
});
const unsubscribe: fc.Arbitrary<Call> = fc.record({ operation: operation("unsubscribe"), age: fc.nat({ max: 2 }) });

export const callSequence: fc.Arbitrary<Call[]> = fc.array(
  fc.oneof(
    { weight: 24, arbitrary: append },
    { weight: 8, arbitrary: retry },
    { weight: 1, arbitrary: expiredAppend },
    { weight: 4, arbitrary: setMetadata },
    { weight: 2, arbitrary: setRawMetadata },
    { weight: 3, arbitrary: getMetadata },
    { weight: 1, arbitrary: outlive },
    { weight: 16, arbitrary: read },
    { weight: 5, arbitrary: readAll },
    { weight: 1, arbitrary: expiredRead },
    { weight: 4, arbitrary: deletion },
    { weight: 1, arbitrary: tombstone },
    { weight: 2, arbitrary: subscribe },
    { weight: 2, arbitrary: subscribeToAll },
    { weight: 1, arbitrary: unsubscribe },
  ),
  { minLength: 10, maxLength: 60, size: "max" },
);
