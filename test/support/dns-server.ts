/**
 * A name server for tests, by default on loopback. A test sets its answers, which have TTL 0, and reads the queries.
 */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import packet from "dns-packet";
import { releaseLater } from "./resources.ts";

/** Answer to queries for a record type. */
export type DnsReply =
  /** Addresses, sent after an optional delay. Without addresses, the name exists but has no record of this type. */
  | { addresses: readonly string[]; delayMs?: number }
  | "nxdomain"
  /** No answer. */
  | "drop";

export interface DnsServer {
  /** Address of the server in the form `address:port`. */
  address: string;
  /** Received queries in order, such as `A example.com`. */
  questions: string[];
  /** Sets the answers to A queries, one address per query. The last address is repeated. */
  setAddresses(...addresses: string[]): void;
  /** Sets the answers to all later queries. */
  setReplies(replies: { A: DnsReply; AAAA: DnsReply }): void;
  close(): Promise<void>;
}

const NXDOMAIN = 3;

/** @param listener address and port to listen on; by default, a free port on loopback */
export async function startDnsServer(listener = { address: "127.0.0.1", port: 0 }): Promise<DnsServer> {
  const socket = createSocket("udp4");
  const timers = new Set<NodeJS.Timeout>();
  const questions: string[] = [];
  let nextAddresses: string[] = [];
  let replies: Partial<Record<string, DnsReply>> = {};
  const findReply = (type: string): DnsReply => {
    const reply = replies[type];
    if (reply) return reply;
    const nextAddress = nextAddresses.length > 1 ? nextAddresses.shift() : nextAddresses[0];
    return { addresses: type === "A" && nextAddress ? [nextAddress] : [] };
  };
  socket.on("message", (message, { port, address }) => {
    const { id = 0, questions: receivedQuestions = [] } = packet.decode(message);
    const [question] = receivedQuestions;
    if (!question) return;
    const { type, name } = question;
    questions.push(`${type} ${name}`);
    const reply = findReply(type);
    if (reply === "drop") return;
    const addresses = reply === "nxdomain" ? [] : reply.addresses;
    const answers = addresses.map((data) => ({ type: type as "A" | "AAAA", name, ttl: 0, data }));
    const flags = reply === "nxdomain" ? NXDOMAIN : 0;
    const responseBytes = packet.encode({ type: "response", id, flags, questions: receivedQuestions, answers });
    const timer = setTimeout(
      () => {
        timers.delete(timer);
        socket.send(responseBytes, port, address);
      },
      reply === "nxdomain" ? 0 : (reply.delayMs ?? 0),
    );
    timers.add(timer);
  });
  socket.bind(listener);
  await once(socket, "listening");
  return {
    address: `${listener.address}:${socket.address().port}`,
    questions,
    setAddresses(...addresses) {
      nextAddresses = addresses;
      replies = {};
    },
    setReplies(newReplies) {
      replies = newReplies;
    },
    close: releaseLater(async () => {
      for (const timer of timers) clearTimeout(timer);
      socket.close();
      await once(socket, "close");
    }),
  };
}
