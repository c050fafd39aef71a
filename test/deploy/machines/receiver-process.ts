/**
 * The partner's webhook receiver: an HTTPS server on port 443. Prints the id of each created appointment.
 *
 *     receiver-process.ts <certificate> <key>
 */
import { readFileSync } from "node:fs";
import { createServer } from "node:https";

interface WebhookBody {
  type: string;
  data: { appointment?: { id: string } };
}

const [cert, key] = process.argv.slice(2).map((path) => readFileSync(path));
createServer({ cert, key }, (request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const { type, data } = JSON.parse(Buffer.concat(chunks).toString()) as WebhookBody;
    if (type === "appointment.created" && data.appointment) process.stdout.write(`${data.appointment.id}\n`);
    response.end();
  });
}).listen(443, () => process.stdout.write("listening\n"));
