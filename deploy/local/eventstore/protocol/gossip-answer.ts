/** Gossip.Read: a cluster of one, so that connection strings with several hosts or discovery work. */
import type { ClusterInfo } from "@eventstore/db-client/generated/gossip_pb.js";
import { gossip, shared } from "../model/pb.ts";

const TICKS_PER_MS = 10_000n;

/**
 * The one member, at the address that the caller used to come here: it is sure to reach that again.
 * `authority` is host and port, `port` where it listens, `now` milliseconds since 1970.
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
