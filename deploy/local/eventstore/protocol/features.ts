/** ServerFeatures.GetSupportedMethods: what the client may call here. */
import type { SupportedMethods } from "@eventstore/db-client/generated/serverfeatures_pb.js";
import { features } from "../model/pb.ts";

/** The EventStoreDB release whose protocol the log follows. */
const PROTOCOL_VERSION = "24.6.0";

/** The client compares in lower case. */
const STREAMS = "event_store.client.streams.streams";

const METHODS: readonly (readonly [method: string, features: readonly string[]])[] = [
  ["read", ["position", "events"]],
  ["append", []],
  ["batchappend", []],
  ["delete", []],
  ["tombstone", []],
];

export function supportedMethods(): SupportedMethods {
  const methods = METHODS.map(([method, list]) =>
    new features.SupportedMethod()
      .setServiceName(STREAMS)
      .setMethodName(method)
      .setFeaturesList([...list]),
  );
  return new features.SupportedMethods().setEventStoreServerVersion(PROTOCOL_VERSION).setMethodsList(methods);
}
