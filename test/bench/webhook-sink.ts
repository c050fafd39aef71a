/** A process that answers webhooks, and tells its parent when each came. What it does beside 200 follows from the path. */
import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A delivery that came: the event's id, and milliseconds since 1970. */
export type Receipt = [eventId: string, at: number];

const FLUSH_EVERY = 20;

/** Just within the time limit of an attempt. Milliseconds. */
const SLOW = 9_000;

let receipts: Receipt[] = [];
const now = () => performance.timeOrigin + performance.now();

function answer(path: string, response: ServerResponse): void {
  // Never answered at all.
  if (path === "/black-hole") return;
  if (path === "/error") {
    response.writeHead(500).end("broken");
    return;
  }
  if (path === "/slow") {
    const timer = setTimeout(() => response.writeHead(200).end("ok"), SLOW);
    response.once("close", () => clearTimeout(timer));
    return;
  }
  response.writeHead(200);
  if (path !== "/drip") {
    response.end("ok");
    return;
  }
  const timer = setInterval(() => response.write("."), 200);
  response.once("close", () => clearInterval(timer));
}

const listener: RequestListener = (request, response) => {
  const at = now();
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const path = request.url ?? "";
    // The id stands first in the body: to parse it all would take from the machine what is measured.
    const id = Buffer.concat(chunks).toString("latin1", 7, 43);
    answer(path, response);
    if (path === "/") receipts.push([id, at]);
  });
};

/** Two origins, so that a test can keep bad receivers off the connections of good ones. */
const ports = await Promise.all([listen(), listen()]);
process.send?.({ ports });

async function listen(): Promise<number> {
  const server = createServer(listener);
  server.keepAliveTimeout = 60_000;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

setInterval(() => {
  if (receipts.length > 0) process.send?.({ receipts });
  receipts = [];
}, FLUSH_EVERY);
process.on("disconnect", () => process.exit());
