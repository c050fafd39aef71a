import type { ClusterInfo } from "@eventstore/db-client/generated/gossip_pb.js";
import type { SupportedMethods } from "@eventstore/db-client/generated/serverfeatures_pb.js";
import { features, gossip, shared } from "../model/pb.ts";

/** The EventStoreDB release whose protocol the log follows. */
const PROTOCOL_VERSION = "24.6.0";

/** Lower case, because the client compares in lower case. */
const STREAMS = "event_store.client.streams.streams";

const METHODS: readonly (readonly [method: string, features: readonly string[]])[] = [
  ["read", ["position", "events"]],
  ["append", []],
  ["batchappend", []],
  ["delete", []],
  ["tombstone", []],
];

/** Answers ServerFeatures.GetSupportedMethods: the methods that a client can call. */
export function supportedMethods(): SupportedMethods {
  const methods = METHODS.map(([method, list]) =>
    new features.SupportedMethod()
      .setServiceName(STREAMS)
      .setMethodName(method)
      .setFeaturesList([...list]),
  );
  return new features.SupportedMethods().setEventStoreServerVersion(PROTOCOL_VERSION).setMethodsList(methods);
}

const TICKS_PER_MS = 10_000n;

/**
 * Answers Gossip.Read with one member, so that connection strings with several hosts or discovery work. The member has the
 * host that the caller used, because the caller can reach it.
 *
 * @param authority host and port that the caller used
 * @param port port on which the log listens
 * @param now milliseconds since 1970
 */
export function clusterOfOne(authority: string, port: number, instanceId: string, now: number): ClusterInfo {
  const host = authority.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");
  const member = new gossip.MemberInfo()
    .setInstanceId(new shared.UUID().setString(instanceId))
    .setTimeStamp(String(BigInt(now) * TICKS_PER_MS))
    .setState(gossip.MemberInfo.VNodeState.LEADER)
    .setIsAlive(true)
    .setHttpEndPoint(new gossip.EndPoint().setAddress(host).setPort(port));
  return new gossip.ClusterInfo().setMembersList([member]);
}
