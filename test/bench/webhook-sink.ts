/** A process that answers webhooks, and tells its parent when each came. What it does beside 200 follows from the path. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A delivery that came: the event's id, and milliseconds since 1970. */
export type Receipt = [eventId: string, at: number];

const FLUSH_EVERY = 20;

let receipts: Receipt[] = [];
const now = () => performance.timeOrigin + performance.now();

function answer(path: string, response: ServerResponse): void {
  // Never answered at all.
  if (path === "/black-hole") return;
  if (path === "/error") {
    response.writeHead(500).end("broken");
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

const server = createServer((request, response) => {
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
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => process.send?.({ port: (server.address() as AddressInfo).port }));

setInterval(() => {
  if (receipts.length > 0) process.send?.({ receipts });
  receipts = [];
}, FLUSH_EVERY);
process.on("disconnect", () => process.exit());
