/**
 * Attempts with receivers that respond correctly, wrongly, too early, slowly, endlessly or partly, over raw sockets.
 */
import { once } from "node:events";
import type { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { expect } from "chai";
import { type Connections, createConnections } from "../../../../projection/webhooks/send/connections.ts";
import { send } from "../../../../projection/webhooks/send/send.ts";
import { eventually } from "../../../support/eventually.ts";
import { type RawReceiver, startRawReceiver } from "../../../support/raw-receiver.ts";

const HEAD = "HTTP/1.1 200 OK\r\n";
const SIZED_HEAD = `${HEAD}Content-Length: 2\r\n\r\n`;
const CHUNKED_HEAD = `${HEAD}Transfer-Encoding: chunked\r\n\r\n`;
const OK = `${SIZED_HEAD}ok`;
const NO_CONTENT = "HTTP/1.1 204 No Content\r\n";
const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";
const SWITCHING = "HTTP/1.1 101 Switching Protocols\r\n";
const LONG_HEADER = `X-Long: ${"x".repeat(17_000)}\r\n`;
const addHeader = (response: string, header: string) => response.replace("\r\n", `\r\n${header}\r\n`);

const isOk = (responseBody = "ok", statusCode = 200) => ({ statusCode, error: null, responseBody });
const failsWith = (error: string) => ({ statusCode: null, error, responseBody: null });
const isInvalid = failsWith("invalid_response");
const isLost = failsWith("connection_lost");
const isTimeout = failsWith("timeout");
type Expected = ReturnType<typeof isOk> | ReturnType<typeof failsWith>;

/** Name of the case, bytes of each response, and expected result of each attempt. */
type ByteRow = [string, string, Expected];

const correctResponses: ByteRow[] = [
  ["a body of the announced length", OK, isOk()],
  ["a status without a reason", OK.replace(" OK", ""), isOk()],
  ["chunks and a trailer", `${CHUNKED_HEAD}1\r\no\r\n1;x=y\r\nk\r\n0\r\nX-Trailer: z\r\n\r\n`, isOk()],
  ["204", `${NO_CONTENT}\r\n`, isOk("", 204)],
  ["204 with the length 0", `${NO_CONTENT}Content-Length: 0\r\n\r\n`, isOk("", 204)],
  ["205 with a body", OK.replace("200", "205"), isOk("ok", 205)],
  ["an unknown status", OK.replace("200", "999"), isOk("ok", 999)],
  ["a redirect", addHeader(OK.replace("200", "302"), "Location: /"), isOk("ok", 302)],
  ["an unused offer to upgrade", addHeader(OK, "Upgrade: h2c\r\nConnection: Upgrade, Keep-Alive"), isOk()],
  ["the informational response 102", `HTTP/1.1 102 Processing\r\n\r\n${OK}`, isOk()],
  ["an informational response with headers", addHeader(CONTINUE, "Link: </style.css>") + OK, isOk()],
  ["an informational response with a length", addHeader(CONTINUE, "Content-Length: 5") + OK, isOk()],
  ["16 informational responses", CONTINUE.repeat(8) + CONTINUE.replace("100", "199").repeat(8) + OK, isOk()],
];

/** Responses with a valid status, after which the connection is not used again. */
const brokenResponses: ByteRow[] = [
  ["a header that ends the connection", addHeader(OK, "Connection: close"), isOk()],
  ["HTTP/1.0", OK.replace("1.1", "1.0"), isOk()],
  ["204 with a body", `${NO_CONTENT}\r\n{}`, isOk("", 204)],
  ["204 with a length and a body", `${NO_CONTENT}Content-Length: 2\r\n\r\n{}`, isOk("", 204)],
  ["204 with a length and no body", `${NO_CONTENT}Content-Length: 2\r\n\r\n`, isOk("", 204)],
  ["204 with chunks", `${NO_CONTENT}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`, isOk("", 204)],
  ["a body longer than its length", `${OK}more`, isOk()],
  ["410 and a body longer than its length", `${OK.replace("200", "410")}more`, isOk("ok", 410)],
  ["a second response", OK + OK, isOk()],
  ["a second response with another status", OK + OK.replace("200", "500"), isOk()],
  ["a chunk whose size is not a number", `${CHUNKED_HEAD}2\r\nok\r\nxyz\r\n`, isOk()],
  ["a chunk longer than its size", `${CHUNKED_HEAD}2\r\nokay\r\n0\r\n\r\n`, isOk()],
  ["an invalid trailer", `${CHUNKED_HEAD}2\r\nok\r\n0\r\nnot a trailer\r\n\r\n`, isOk()],
  ["a trailer of more than 16 KiB", `${CHUNKED_HEAD}2\r\nok\r\n0\r\n${LONG_HEADER}\r\n`, isOk()],
  ["a body without an end", `${HEAD}\r\nok`, isOk()],
  ["a body with an unknown encoding", `${HEAD}Transfer-Encoding: gzip\r\n\r\nok`, isOk()],
  ["a body shorter than its length", OK.replace("2\r\n", "9\r\n"), isOk()],
  ["an incomplete chunk", `${CHUNKED_HEAD}9\r\nok`, isOk()],
];

/** Responses without a valid status line and headers. */
const invalidResponses: ByteRow[] = [
  ["a banner of SSH", "SSH-2.0-OpenSSH_9.6\r\n", isInvalid],
  ["a TLS alert", "\x15\x03\x01\x00\x02\x02\x46", isInvalid],
  ["HTTP/1.2", OK.replace("1.1", "1.2"), isInvalid],
  ["a status of two digits", OK.replace("200", "20"), isInvalid],
  ["lines without carriage returns", OK.replaceAll("\r", ""), isInvalid],
  ["a header without a colon", addHeader(OK, "X"), isInvalid],
  ["a length that is not a number", OK.replace(": 2", ": two"), isInvalid],
  ["two lengths", addHeader(OK, "Content-Length: 3"), isInvalid],
  ["a length and chunks", addHeader(OK, "Transfer-Encoding: chunked"), isInvalid],
  ["headers of more than 16 KiB", addHeader(OK, LONG_HEADER.trim()), isInvalid],
  ["17 informational responses", CONTINUE.repeat(17) + OK, isInvalid],
  ["101 and an upgrade", `${SWITCHING}Connection: upgrade\r\nUpgrade: x\r\n\r\n${OK}`, isInvalid],
  ["101 without an upgrade", `${SWITCHING}\r\n${OK}`, isInvalid],
];

type Reaction = (socket: Socket) => void;

const writeRepeatedly = (socket: Socket, text: string) => {
  const timer = setInterval(() => socket.write(text), 10);
  socket.once("close", () => clearInterval(timer));
};
const writeEndlessly = (socket: Socket, text: string) => {
  const block = text.repeat(65_536 / text.length);
  while (!socket.destroyed && socket.write(block));
  socket.once("drain", () => writeEndlessly(socket, text));
};

/** What the receiver does when a request has arrived, and the expected result of each attempt. */
const reactions: [string, Reaction, Expected][] = [
  ["closes the connection", (socket) => socket.destroy(), isLost],
  ["ends its half of the connection", (socket) => socket.end(), isLost],
  ["does nothing", () => undefined, isTimeout],
  ["sends headers without their last byte", (socket) => socket.write(SIZED_HEAD.slice(0, -1)), isTimeout],
  ["sends headers slowly", (socket) => socket.write(HEAD) && writeRepeatedly(socket, "X: y\r\n"), isTimeout],
  ["sends headers endlessly", (socket) => socket.write(HEAD) && writeEndlessly(socket, "X: y\r\n"), isInvalid],
  ["sends informational responses slowly", (socket) => writeRepeatedly(socket, CONTINUE), isInvalid],
  ["sends informational responses endlessly", (socket) => writeEndlessly(socket, CONTINUE), isInvalid],
  ["ends its half of the connection after a response", (socket) => socket.end(OK), isOk()],
  ["ends its half of the connection to end a body", (socket) => socket.end(`${HEAD}\r\nok`), isOk()],
  ["ends its half of the connection in a body", (socket) => socket.end(OK.replace("2\r\n", "9\r\n")), isOk()],
  ["sends headers without a body", (socket) => socket.write(SIZED_HEAD), isOk("")],
  [
    "sends a body endlessly",
    (socket) => socket.write(`${HEAD}\r\n`) && writeEndlessly(socket, "x"),
    isOk("x".repeat(1_024)),
  ],
];

/** What the receiver does before a request arrives, and the expected result of each attempt. */
const earlyReactions: [string, Reaction, Expected][] = [
  ["closes the connection", (socket) => socket.destroy(), isLost],
  ["ends its half of the connection", (socket) => socket.end(), isLost],
  ["responds, and ends its half of the connection", (socket) => socket.end(OK), isOk()],
  ["responds, and closes the connection", (socket) => socket.write(OK, () => socket.destroy()), isOk()],
  ["responds, and keeps the connection open", (socket) => socket.write(addHeader(OK, "Connection: close")), isOk()],
  ["refuses all requests", (socket) => socket.end(OK.replace("200", "503")), isOk("ok", 503)],
];

describe("receivers", () => {
  const openConnections: Connections[] = [];
  const openReceivers: RawReceiver[] = [];

  afterEach(async () => {
    for (const connections of openConnections.splice(0)) connections.close();
    for (const receiver of openReceivers.splice(0)) await receiver.close();
  });

  async function start(onRequest: Reaction, onConnection?: Reaction) {
    const receiver = await startRawReceiver(onRequest, onConnection);
    const connections = createConnections();
    openReceivers.push(receiver);
    openConnections.push(connections);
    const attempt = async (timeoutMs = 20_000, signal = new AbortController().signal, url = receiver.url) => {
      const options = { connections, applicationId: "a", allowsLoopback: true, connectTimeoutMs: 20_000 };
      const result = await send(url, {}, "{}", { ...options, timeoutMs, signal });
      // Node returns a connection to its pool only in the next turn of the event loop.
      await nextTurn();
      return result;
    };
    return { receiver, attempt };
  }

  /** Makes two attempts and checks the result of both. @returns the number of connections */
  async function checkTwice(expected: Expected, onRequest: Reaction, onConnection?: Reaction) {
    const { receiver, attempt } = await start(onRequest, onConnection);
    for (let n = 0; n < 2; n += 1) {
      const result = await attempt(expected.error === "timeout" ? 300 : undefined);
      expect(result).to.deep.include(expected);
      // A slow or endless body delays the outcome by half a second.
      if (expected.error !== "timeout") expect(result?.durationMs).to.be.below(10_000);
    }
    return receiver.connectionCount;
  }

  const sendBytes = async (socket: Socket, response: string, packetSize: number) => {
    socket.setNoDelay();
    for (let start = 0; start < response.length; start += packetSize) {
      socket.write(response.slice(start, start + packetSize), "latin1");
      await nextTurn();
    }
  };
  const tables: [string, ByteRow[], number][] = [
    ["the status counts and the connection is used again", correctResponses, 1],
    ["the status counts and the connection is not used again", brokenResponses, 2],
    ["the attempt fails with invalid_response", invalidResponses, 2],
  ];
  for (const [effect, rows, connectionCount] of tables)
    for (const [name, response, expected] of rows)
      it(`after ${name}, in one packet or many, ${effect}`, async () => {
        const packetSizes = [response.length, Math.ceil(response.length / 1_000)];
        const checks = packetSizes.map((size) => checkTwice(expected, (socket) => sendBytes(socket, response, size)));
        expect(await Promise.all(checks)).to.deep.equal([connectionCount, connectionCount]);
      });

  const describeResult = ({ statusCode, error }: Expected) => error ?? `the status ${statusCode}`;
  for (const [name, onRequest, expected] of reactions)
    it(`if a receiver ${name}, the result is ${describeResult(expected)}`, async () => {
      expect(await checkTwice(expected, onRequest)).to.equal(2);
    });
  for (const [name, onConnection, expected] of earlyReactions)
    it(`if a receiver ${name} before it got a request, the result is ${describeResult(expected)}`, async () => {
      expect(await checkTwice(expected, () => undefined, onConnection)).to.equal(2);
    });

  const endings: [string, Reaction][] = [
    ["resets", (socket) => socket.resetAndDestroy()],
    ["closes", (socket) => socket.destroy()],
    ["ends its half of", (socket) => socket.end()],
  ];
  for (const [name, end] of endings)
    it(`if a receiver ${name} the connection after any byte of a response, complete headers decide`, async () => {
      const response = CONTINUE + OK;
      const headLength = response.length - "ok".length;
      const checks = Array.from({ length: response.length + 1 }, async (_, length) => {
        const { attempt } = await start((socket) => socket.write(response.slice(0, length), () => end(socket)));
        const expected = length < headLength ? isLost : isOk("ok".slice(0, length - headLength));
        expect(await attempt(), `${length} bytes`).to.deep.include(expected);
      });
      await Promise.all(checks);
    });

  for (const bytes of ["{}", `${HEAD.replace("200 OK", "408 Request Timeout")}Content-Length: 0\r\n\r\n`])
    it(`a connection on which ${JSON.stringify(bytes)} arrives between two requests is not used again`, async () => {
      const sockets: Socket[] = [];
      const onRequest = (socket: Socket) => {
        sockets.push(socket);
        socket.write(OK);
      };
      const { receiver, attempt } = await start(onRequest);
      await attempt();
      sockets[0]!.write(bytes);
      // Idle connections are closed after four seconds.
      await eventually("the end of the connection", () => sockets[0]!.closed, 3_000);
      expect(await attempt()).to.deep.include(isOk());
      expect([receiver.requestCount, receiver.connectionCount]).to.deep.equal([2, 2]);
    });

  it("an attempt that is interrupted during a body returns the status", async () => {
    const { receiver, attempt } = await start((socket) => socket.write(`${HEAD}\r\nok`));
    const interruption = new AbortController();
    const attemptPromise = attempt(undefined, interruption.signal);
    await eventually("the request", () => receiver.requestCount === 1);
    // The response is read in the next turn, because the receiver runs in the same process.
    await nextTurn();
    interruption.abort();
    expect(await attemptPromise).to.deep.include(isOk());
  });

  it("a response that arrives while the sender's process is paused counts, even if the time limit has passed", async () => {
    const timeoutMs = 1_000;
    const flags = new Int32Array(new SharedArrayBuffer(8));
    const worker = new Worker(
      `const { parentPort, workerData: flags } = require("node:worker_threads");
       const server = require("node:net").createServer((socket) => socket.once("data", () => {
         Atomics.store(flags, 0, 1);
         Atomics.wait(flags, 1, 0);
         socket.write(${JSON.stringify(OK)});
       }));
       server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));`,
      { eval: true, workerData: flags },
    );
    const [port] = (await once(worker, "message")) as [number];
    const { attempt } = await start(() => undefined);
    const attemptPromise = attempt(timeoutMs, undefined, `http://127.0.0.1:${port}`);
    await eventually("the request", () => Atomics.load(flags, 0) === 1);
    Atomics.store(flags, 1, 1);
    Atomics.notify(flags, 1);
    // Pauses this thread. When the pause ends, Node runs expired timers before it reads from sockets.
    await nextTurn();
    Atomics.wait(flags, 0, 1, timeoutMs);
    expect(await attemptPromise).to.deep.include(isOk());
    await worker.terminate();
  });
});
