import type { ClusterInfo } from "@eventstore/db-client/generated/gossip_pb.js";
import type { SupportedMethods } from "@eventstore/db-client/generated/serverfeatures_pb.js";
import { features, gossip, shared } from "../model/pb.ts";

/** EventStoreDB release whose protocol this log implements. */
const PROTOCOL_VERSION = "24.6.0";

/** Name of the Streams service in lower case, because the client compares lower-case names. */
const STREAMS_SERVICE = "event_store.client.streams.streams";

const SUPPORTED_METHODS: readonly (readonly [method: string, features: readonly string[]])[] = [
  ["read", ["position", "events"]],
  ["append", []],
  ["batchappend", []],
  ["delete", []],
  ["tombstone", []],
];

/** Creates the response of ServerFeatures.GetSupportedMethods. */
export function listSupportedMethods(): SupportedMethods {
  const methods = SUPPORTED_METHODS.map(([method, featureNames]) =>
    new features.SupportedMethod()
      .setServiceName(STREAMS_SERVICE)
      .setMethodName(method)
      .setFeaturesList([...featureNames]),
  );
  return new features.SupportedMethods().setEventStoreServerVersion(PROTOCOL_VERSION).setMethodsList(methods);
}

const TICKS_PER_MS = 10_000n;

/**
 * Creates the response of Gossip.Read, so that clients can use connection strings with discovery or several hosts. The
 * cluster has one member. The response contains the host to which the client connected, because the client can reach
 * that host.
 *
 * @param authority host and port to which the client connected
 * @param port port on which the log listens
 */
export function createClusterInfo(authority: string, port: number, instanceId: string): ClusterInfo {
  const host = authority.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");
  const member = new gossip.MemberInfo()
    .setInstanceId(new shared.UUID().setString(instanceId))
    .setTimeStamp(String(BigInt(Date.now()) * TICKS_PER_MS))
    .setState(gossip.MemberInfo.VNodeState.LEADER)
    .setIsAlive(true)
    .setHttpEndPoint(new gossip.EndPoint().setAddress(host).setPort(port));
  return new gossip.ClusterInfo().setMembersList([member]);
}
