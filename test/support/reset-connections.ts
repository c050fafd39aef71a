/** Clients that reset their connections at any step of a request, like port scanners and clients that crash. */
import { METHODS } from "node:http";
import { connect } from "node:net";

const head = (requestLine: string, ...headers: string[]) =>
  `${[`${requestLine} HTTP/1.1`, "Host: x", ...headers].join("\r\n")}\r\n\r\n`;

/** Builds the head of a token request. Services read its body without credentials. */
const tokenHead = (...headers: string[]) =>
  head("POST /sandbox/v1/oauth/token", "Content-Type: application/json", ...headers);

/** Beginnings of connections: requests with all methods of Node's parser, other protocols, and invalid requests. */
const OPENINGS: readonly (string | Buffer)[] = [
  ...METHODS.map((method) => head(`${method} ${method === "CONNECT" ? "x:1" : "/health/live"}`)),
  head("GET /health/live") + head("CONNECT x:1"),
  `${head("CONNECT x:1")}bytes for the tunnel`,
  head("GET /health/live", "Connection: Upgrade", "Upgrade: websocket"),
  head("GET /health/live", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAA"),
  // A ClientHello of TLS 1.2, and HTTP/2's preface with an empty frame SETTINGS.
  Buffer.from(`16030100310100002d0303${"00".repeat(32)}000004002f00ff0100`, "hex"),
  Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Buffer.from("000000040000000000", "hex")]),
  head("BREW /health/live"),
  head("GET /health/live", ": x"),
  head("GET /health/live", `X-A: ${"a".repeat(40_000)}`),
  "GET /health/live HTTP/1.1\r\n\r\n",
  head("POST /health/live", "Expect: 100-continue", "Content-Length: 9"),
  `${tokenHead("Content-Length: 99")}{"grant_type":`,
  `${tokenHead("Transfer-Encoding: chunked")}5\r\n{"a":\r\n`,
  `${tokenHead("Transfer-Encoding: chunked")}zz\r\n`,
];

/** Times between the last sent byte and the reset. Milliseconds. */
const RESET_DELAYS_MS = [0, 2, 8, 20, 40];

/**
 * Opens connections and sends nothing, half or all of each opening. Resets each connection at once, after a delay, or
 * when the server answers.
 *
 * @param moreOpenings additional openings, for example requests that the server never answers
 */
export async function resetConnections(url: string, moreOpenings: readonly string[] = []): Promise<void> {
  const openings = [...OPENINGS, ...moreOpenings].map((opening) => Buffer.from(opening as string));
  const parts = [Buffer.alloc(0), ...openings.flatMap((bytes) => [bytes.subarray(0, bytes.length / 2), bytes])];
  for (const delayMs of RESET_DELAYS_MS) await Promise.all(parts.map((bytes) => resetConnection(url, bytes, delayMs)));
  await Promise.all(openings.map((bytes) => resetConnection(url, bytes, undefined)));
}

/** @param delayMs if undefined, resets when bytes arrive, or else after the longest delay */
function resetConnection(url: string, bytes: Buffer, delayMs: number | undefined): Promise<void> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(bytes);
      if (delayMs === 0) socket.resetAndDestroy();
      else setTimeout(() => socket.resetAndDestroy(), delayMs ?? RESET_DELAYS_MS.at(-1));
    });
    if (delayMs === undefined) socket.once("data", () => socket.resetAndDestroy());
    socket.on("error", () => undefined).on("close", () => resolve());
  });
}
