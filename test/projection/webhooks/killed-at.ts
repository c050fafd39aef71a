/** Kills this very process, as `kill -9` does, when its work comes to a certain step. */
import { createRequire } from "node:module";
import type pg from "pg";

/** Between which two things the process ends. */
export const killingSteps = [
  "match | insert",
  "insert | commit",
  "commit | ack",
  "ack | lease",
  "lease | send",
  "answer | record",
  "record | commit",
  "committed record | next",
  "fact told | fact taken off",
] as const;
export type KillingStep = (typeof killingSteps)[number];

/** Before a statement is sent, or after its result came. A commit is told by the statement that it makes durable. */
const at: Record<KillingStep, { when: "before" | "after" | "never"; statement: RegExp }> = {
  "match | insert": { when: "after", statement: /^match endpoints/ },
  "insert | commit": { when: "after", statement: /^insert deliveries/ },
  "commit | ack": { when: "after", statement: /^COMMIT insert deliveries/ },
  "ack | lease": { when: "never", statement: /^claim due deliveries/ },
  "lease | send": { when: "after", statement: /^claim due deliveries/ },
  "answer | record": { when: "before", statement: /^write (successes|attempts)/ },
  "record | commit": { when: "after", statement: /^move deliveries/ },
  "committed record | next": { when: "after", statement: /^(write successes|COMMIT move deliveries)/ },
  "fact told | fact taken off": { when: "before", statement: /^DELETE FROM webhooks\.outbox/ },
};

const die = () => process.kill(process.pid, "SIGKILL");

export function dieAt(step: KillingStep, pool: pg.Pool): void {
  if (step === "ack | lease") dieAfterAck();
  const { when, statement } = at[step];
  const watch = (queryable: { query: unknown }) => {
    const query = (queryable.query as (...given: unknown[]) => unknown).bind(queryable);
    let written = "";
    queryable.query = async (...given: unknown[]) => {
      // The pool asks its own clients with a callback; what it asks was seen already.
      if (typeof given.at(-1) === "function") return query(...given);
      const name = nameOf(given[0]);
      const told = name === "COMMIT" ? `COMMIT ${written}` : name;
      if (name === "insert deliveries" || name === "move deliveries") written = name;
      if (statement.test(told) && when === "before") die();
      if (statement.test(told) && when === "never") await new Promise(() => undefined);
      const result = (await query(...given)) as { rowCount: number | null };
      const hit = when === "after" && statement.test(told);
      if (hit && (name === "COMMIT" || (result.rowCount ?? 0) > 0)) die();
      return result;
    };
  };
  watch(pool);
  const watched = new WeakSet<object>();
  pool.on("connect", (client) => {
    if (watched.has(client)) return;
    watched.add(client);
    watch(client);
  });
}

function nameOf(statement: unknown): string {
  if (typeof statement === "string") return statement.trimStart();
  const { name, text } = statement as { name?: string; text: string };
  return name ?? text.trimStart();
}

/** The server has confirmed the acknowledgement when this process ends. */
function dieAfterAck(): void {
  type Message = { ack(): void; ackAck(): Promise<boolean> };
  const require = createRequire(import.meta.url);
  const { JsMsgImpl } = require("nats/lib/jetstream/jsmsg.js") as { JsMsgImpl: { prototype: Message } };
  JsMsgImpl.prototype.ack = function (this: Message) {
    void this.ackAck().then(die);
  };
}
