/** A name server on loopback that answers as it is told, with answers that nobody may keep, and counts the questions. */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import packet from "dns-packet";

export interface DnsServer {
  /** `address:port` */
  address: string;
  /** What was asked, in order, as `A name`. */
  questions: string[];
  /** Answers the following questions for IPv4 addresses with these, one each; the last one is kept. */
  answer(...addresses: string[]): void;
  close(): Promise<void>;
}

export async function startDnsServer(): Promise<DnsServer> {
  const socket = createSocket("udp4");
  const questions: string[] = [];
  let answers: string[] = [];
  socket.on("message", (message, { port, address }) => {
    const { id, questions: asked = [] } = packet.decode(message);
    questions.push(...asked.map(({ type, name }) => `${type} ${name}`));
    const found = asked
      .filter(({ type }) => type === "A")
      .flatMap(({ name }) => {
        const data = answers.length > 1 ? answers.shift() : answers[0];
        return data ? [{ type: "A", name, ttl: 0, data } as const] : [];
      });
    socket.send(
      packet.encode({ type: "response", ...(id !== undefined && { id }), questions: asked, answers: found }),
      port,
      address,
    );
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return {
    address: `127.0.0.1:${socket.address().port}`,
    questions,
    answer(...addresses) {
      answers = addresses;
    },
    async close() {
      socket.close();
      await once(socket, "close");
    },
  };
}
