/**
 * Process that receives webhooks. It responds with 200 to the paths `/` and `/delayed`, and reports the arrival times
 * to its parent process. Other paths cause slow or failing responses.
 */
import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** Ids of a received delivery and its event, and the time of arrival in milliseconds since 1970. */
export type Receipt = [deliveryId: string, eventId: string, receivedAt: number];

export interface SampledRequest {
  headers: Record<string, string>;
  body: string;
}

/** The parent process gets one complete request out of this number of requests. */
const REQUESTS_PER_SAMPLE = 100;

/** Interval at which receipts are sent to the parent process. Milliseconds. */
const FLUSH_INTERVAL_MS = 20;

/** Delay of responses on the path `/delayed`. Milliseconds. */
const DELAY_MS = 50;

/** Delay of responses on the path `/slow`, just below the time limit of an attempt. Milliseconds. */
const SLOW_RESPONSE_MS = 9_000;

let receipts: Receipt[] = [];
let samples: SampledRequest[] = [];
let requestCount = 0;
const now = () => performance.timeOrigin + performance.now();

function respond(path: string, response: ServerResponse): void {
  if (path === "/black-hole") return;
  if (path === "/error") {
    response.writeHead(500).end("broken");
    return;
  }
  if (path === "/slow" || path === "/delayed") {
    const delayMs = path === "/slow" ? SLOW_RESPONSE_MS : DELAY_MS;
    const timer = setTimeout(() => response.writeHead(200).end("ok"), delayMs);
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
  const receivedAt = now();
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const path = request.url ?? "";
    // The id is the first field of the body. Parsing the whole body would distort the measurement.
    const body = Buffer.concat(chunks);
    const id = body.toString("latin1", 7, 43);
    respond(path, response);
    if (path !== "/" && path !== "/delayed") return;
    const headers = request.headers as Record<string, string>;
    receipts.push([headers["webhook-id"] ?? "", id, receivedAt]);
    requestCount += 1;
    if (requestCount % REQUESTS_PER_SAMPLE === 0) samples.push({ headers, body: body.toString() });
  });
};

/** Two ports are two origins, so that slow and fast receivers do not share connections. */
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
  // If the parent process has just ended, sending fails before this process notices the end.
  if (receipts.length > 0)
    process.send?.({ receipts, samples }, undefined, undefined, (error) => error && process.exit());
  receipts = [];
  samples = [];
}, FLUSH_INTERVAL_MS);
process.on("disconnect", () => process.exit());
