/** A listening socket on loopback that accepts no connections. Its queue is full, so the kernel drops every new SYN. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { Worker } from "node:worker_threads";
import { eventually } from "./eventually.ts";
import { releaseLater } from "./resources.ts";

export interface UnresponsiveServer {
  port: number;
  /** Starts accepting connections, and returns 200 for each request. */
  accept(): void;
  close(): Promise<void>;
}

/** Script of a thread that listens and then blocks, so that connections stay in the socket's queue. */
const LISTENER_SCRIPT = `
  const { parentPort, workerData } = require("node:worker_threads");
  const server = require("node:http").createServer((request, response) => response.end("ok"));
  server.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
    parentPort.postMessage(server.address().port);
    Atomics.wait(workerData, 0, 0);
  });`;

export async function startUnresponsiveServer(): Promise<UnresponsiveServer> {
  const blockedFlag = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(LISTENER_SCRIPT, { eval: true, workerData: blockedFlag });
  const [port] = (await once(worker, "message")) as [number];
  const queuedSockets: Socket[] = [];
  await eventually("a full queue", async () => {
    const socket = connect(port, "127.0.0.1").on("error", () => undefined);
    queuedSockets.push(socket);
    const connectPromise = once(socket, "connect").then(() => true);
    const timeoutPromise = new Promise<false>((resolve) => setTimeout(resolve, 200, false));
    return !(await Promise.race([connectPromise, timeoutPromise]));
  });
  return {
    port,
    accept() {
      Atomics.store(blockedFlag, 0, 1);
      Atomics.notify(blockedFlag, 0);
    },
    close: releaseLater(async () => {
      for (const socket of queuedSockets) socket.destroy();
      await worker.terminate();
    }),
  };
}
