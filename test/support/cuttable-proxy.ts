import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/**
 * Starts a TCP proxy to the event log that can be interrupted and restored.
 *
 * @param target URL of the log
 */
export async function startCuttableProxy(target: string) {
  const { hostname, port } = new URL(target);
  const open = new Set<Socket>();
  let cut = false;
  const server = createServer((near) => {
    if (cut) {
      near.destroy();
      return;
    }
    const far = connect(Number(port), hostname);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(from);
      from.pipe(to);
      from.on("error", () => to.destroy());
      from.on("close", () => open.delete(from));
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `esdb://127.0.0.1:${(server.address() as AddressInfo).port}?tls=false`,
    cut() {
      cut = true;
      for (const socket of open) socket.destroy();
    },
    mend() {
      cut = false;
    },
    async close() {
      this.cut();
      server.close();
      await once(server, "close");
    },
  };
}
