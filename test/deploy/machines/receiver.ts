/** The partner's receiver of webhooks, an HTTPS server at a public address of the test network. */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import { join } from "node:path";
import { RECEIVER_ADDRESS, RECEIVER_NAME } from "./network.ts";

export interface Receiver {
  /** Times of the first webhook about the creation of each appointment, by its id. Milliseconds since 1970. */
  arrivals: Map<string, number>;
  close(): void;
}

interface WebhookBody {
  type: string;
  data: { appointment?: { id: string } };
}

/** @param folder of the certificates */
export async function startReceiver(folder: string): Promise<Receiver> {
  const arrivals: Receiver["arrivals"] = new Map();
  const [cert, key] = ["crt", "key"].map((kind) => readFileSync(join(folder, `${RECEIVER_NAME}.${kind}`)));
  const server = createServer({ cert, key }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { type, data } = JSON.parse(Buffer.concat(chunks).toString()) as WebhookBody;
      const id = data.appointment?.id;
      if (type === "appointment.created" && id !== undefined && !arrivals.has(id)) arrivals.set(id, Date.now());
      response.end();
    });
  });
  server.listen(443, RECEIVER_ADDRESS);
  await once(server, "listening");
  return {
    arrivals,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
