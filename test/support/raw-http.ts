import { once } from "node:events";
import { connect } from "node:net";
import { expect } from "chai";

/** A response as the server sent it. */
export interface RawResponse {
  status: number;
  /** Headers by lowercase name. Of repeated headers, only the last value. */
  headers: Record<string, string>;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: each test checks the body that it expects
  body: any;
}

/** Time limit for a connection, longer than the 20 s that servers allow for a slow request. Milliseconds. */
const RESPONSE_TIMEOUT_MS = 60_000;

/**
 * Sends bytes, which need not be a valid request, and reads until the server closes the connection. Fails if a final
 * response lets browsers guess its content type.
 *
 * @param parts each part is written after the previous part has been sent
 * @returns all responses in order, including 1xx responses
 */
export async function sendRaw(url: string, ...parts: (string | Buffer)[]): Promise<RawResponse[]> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const chunks: Buffer[] = [];
  socket.on("data", (chunk) => chunks.push(chunk));
  // The server may close the connection before it has read all parts.
  socket.on("error", () => undefined);
  const closePromise = once(socket, "close");
  const timer = setTimeout(() => socket.destroy(new Error("timeout")), RESPONSE_TIMEOUT_MS);
  for (const part of parts) await new Promise<void>((resolve) => socket.write(part, () => resolve()));
  await closePromise;
  clearTimeout(timer);
  const responses = parseResponses(Buffer.concat(chunks));
  for (const { status, headers } of responses) {
    if (status >= 200)
      expect(headers["x-content-type-options"], `X-Content-Type-Options of a response ${status}`).to.equal("nosniff");
  }
  return responses;
}

/**
 * Sends one request and returns its final response. A valid request must contain `Connection: close`, because the call
 * waits for the end of the connection.
 */
export async function sendOneRequest(url: string, ...parts: (string | Buffer)[]): Promise<RawResponse> {
  const responses = (await sendRaw(url, ...parts)).filter(({ status }) => status >= 200);
  expect(responses, "answers").to.have.length(1);
  return responses[0] as RawResponse;
}

/** Builds a request. Adds `Host`, `Connection: close`, and `Content-Length` if there is a body. */
export function toRequest(requestLine: string, headers: string[], body: string | Buffer = ""): Buffer {
  const length = Buffer.byteLength(body);
  const lines = ["Host: test", "Connection: close", ...headers, ...(length ? [`Content-Length: ${length}`] : [])];
  return Buffer.concat([Buffer.from(`${requestLine}\r\n${lines.join("\r\n")}\r\n\r\n`, "latin1"), Buffer.from(body)]);
}

/** Checks the status, body and correlation id of an error response, and that it contains no internal details. */
export function expectRefusal(response: RawResponse, status: number, error: string): void {
  expect([response.status, response.body?.error], response.text).to.deep.equal([status, error]);
  expect(response.body).to.have.all.keys(
    ...["ok", "error", "correlationId"],
    ...(response.body.details ? ["details"] : []),
    ...(response.body.docUrl ? ["docUrl"] : []),
  );
  expect(response.body.docUrl).to.be.oneOf([undefined, `/docs#error-${error}`]);
  expect(response.body.ok).to.equal(false);
  expect(response.body.correlationId).to.equal(response.headers["x-correlation-id"]);
  expect(response.headers["cache-control"]).to.equal("no-store");
  expect(response.headers["content-type"]).to.match(/^application\/json/);
  expect(response.text).not.to.match(/\bat .*[:(]\d+|node_modules|\.ts\b|SELECT|<html/i);
}

function parseResponses(bytes: Buffer): RawResponse[] {
  const responses: RawResponse[] = [];
  let remainder = bytes;
  while (remainder.length > 0) {
    const headEnd = remainder.indexOf("\r\n\r\n");
    if (headEnd < 0) throw new Error(`not an HTTP response: ${remainder.toString("latin1").slice(0, 200)}`);
    const [statusLine = "", ...lines] = remainder.subarray(0, headEnd).toString("latin1").split("\r\n");
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1]);
    const headers = Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
    );
    const length = status < 200 ? 0 : Number(headers["content-length"] ?? remainder.length);
    const text = remainder.subarray(headEnd + 4, headEnd + 4 + length).toString("utf8");
    responses.push({ status, headers, text, body: parseJson(text) });
    remainder = remainder.subarray(headEnd + 4 + length);
  }
  return responses;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
