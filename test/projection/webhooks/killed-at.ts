/** Kills or freezes the current process when the webhooks role reaches a given step. */
import { JsMsgImpl } from "nats/lib/jetstream/jsmsg.js";
import type pg from "pg";

/** Pairs of steps between which the process can be killed. */
export const killingSteps = [
  "match | insert",
  "insert | commit",
  "commit | ack",
  "ack | lease",
  "lease | send",
  "response | record",
  "record | commit",
  "committed record | next",
  "event appended | event removed",
] as const;
export type KillingStep = (typeof killingSteps)[number];

/**
 * For each step, an SQL statement and the time at which the process is killed: before the statement, or after its
 * result. A `never` trigger blocks the statement instead. For a commit, the name of the committed statement follows
 * `COMMIT`.
 */
const triggers: Record<KillingStep, { timing: "before" | "after" | "never"; statement: RegExp }> = {
  "match | insert": { timing: "after", statement: /^match endpoints/ },
  "insert | commit": { timing: "after", statement: /^insert deliveries/ },
  "commit | ack": { timing: "after", statement: /^COMMIT insert deliveries/ },
  "ack | lease": { timing: "never", statement: /^claim due deliveries/ },
  "lease | send": { timing: "after", statement: /^claim due deliveries/ },
  "response | record": { timing: "before", statement: /^write (successes|attempts)/ },
  "record | commit": { timing: "after", statement: /^move deliveries/ },
  "committed record | next": { timing: "after", statement: /^(write successes|COMMIT move deliveries)/ },
  "event appended | event removed": { timing: "before", statement: /^DELETE FROM webhooks\.outbox/ },
};

/** @param signal SIGKILL, or SIGSTOP to freeze the process */
export function killAt(step: KillingStep, pool: pg.Pool, signal: NodeJS.Signals): void {
  const kill = () => process.kill(process.pid, signal);
  if (step === "ack | lease") killAfterAck(kill);
  const { timing, statement } = triggers[step];
  const watch = (queryable: { query: unknown }) => {
    const query = (queryable.query as (...parameters: unknown[]) => unknown).bind(queryable);
    let lastWrite = "";
    queryable.query = async (...parameters: unknown[]) => {
      // Calls with a callback come from the pool, which has already checked the query.
      if (typeof parameters.at(-1) === "function") return query(...parameters);
      const name = getStatementName(parameters[0]);
      const statementName = name === "COMMIT" ? `COMMIT ${lastWrite}` : name;
      if (name === "insert deliveries" || name === "move deliveries") lastWrite = name;
      if (statement.test(statementName) && timing === "before") kill();
      if (statement.test(statementName) && timing === "never") await new Promise(() => undefined);
      const queryResult = (await query(...parameters)) as { rowCount: number | null };
      const isReached = timing === "after" && statement.test(statementName);
      if (isReached && (name === "COMMIT" || (queryResult.rowCount ?? 0) > 0)) kill();
      return queryResult;
    };
  };
  watch(pool);
  const watchedClients = new WeakSet<object>();
  pool.on("connect", (client) => {
    if (watchedClients.has(client)) return;
    watchedClients.add(client);
    watch(client);
  });
}

function getStatementName(statement: unknown): string {
  if (typeof statement === "string") return statement.trimStart();
  const { name, text } = statement as { name?: string; text: string };
  return name ?? text.trimStart();
}

/** Kills the process after the NATS server has confirmed an acknowledgement. */
function killAfterAck(kill: () => void): void {
  JsMsgImpl.prototype.ack = function (this: JsMsgImpl) {
    void this.ackAck().then(kill);
  };
}
