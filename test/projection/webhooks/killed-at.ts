/** Kills or freezes the current process at a given step of the webhooks role. */
import type pg from "pg";

/** Points at which the process can be killed. Each is named after the steps before and after it. */
export const killingSteps = [
  "added | blocked",
  "blocked | released",
  "released | committed",
  "committed release | lease",
  "lease | send",
  "response | record",
  "record | commit",
  "committed record | release",
  "event found | event appended",
  "event appended | row deleted",
] as const;
export type KillingStep = (typeof killingSteps)[number];

/**
 * The SQL statement that marks each point, and whether the process is killed before the statement or after its result.
 * A commit is named `COMMIT` and the last write before it.
 */
const triggers: Record<KillingStep, { timing: "before" | "after"; statement: RegExp }> = {
  "added | blocked": { timing: "after", statement: /^add deliveries/ },
  "blocked | released": { timing: "before", statement: /^release deliveries/ },
  "released | committed": { timing: "after", statement: /^release deliveries/ },
  "committed release | lease": { timing: "after", statement: /^COMMIT release deliveries/ },
  "lease | send": { timing: "after", statement: /^claim due deliveries/ },
  "response | record": { timing: "before", statement: /^write (successes|attempts)/ },
  "record | commit": { timing: "after", statement: /^move deliveries/ },
  "committed record | release": { timing: "after", statement: /^(write successes|COMMIT move deliveries)/ },
  "event found | event appended": { timing: "after", statement: /^unrecorded failures/ },
  "event appended | row deleted": { timing: "before", statement: /^DELETE FROM webhooks\.failing_endpoint/ },
};

/** @param signal SIGKILL, or SIGSTOP to freeze the process */
export function killAt(step: KillingStep, pool: pg.Pool, signal: NodeJS.Signals): void {
  const kill = () => process.kill(process.pid, signal);
  const { timing, statement } = triggers[step];
  const watch = (queryable: { query: unknown }) => {
    const query = (queryable.query as (...parameters: unknown[]) => unknown).bind(queryable);
    let lastWrite = "";
    queryable.query = async (...parameters: unknown[]) => {
      // Calls with a callback come from the pool, which has already checked the query.
      if (typeof parameters.at(-1) === "function") return query(...parameters);
      const name = getStatementName(parameters[0]);
      const statementName = name === "COMMIT" ? `COMMIT ${lastWrite}` : name;
      if (name === "release deliveries" || name === "move deliveries") lastWrite = name;
      if (statement.test(statementName) && timing === "before") kill();
      const queryResult = (await query(...parameters)) as pg.QueryResult;
      const isReached = timing === "after" && statement.test(statementName);
      if (isReached && (name === "COMMIT" || concernsDelivery(queryResult))) kill();
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

/** Returns false if a statement found no delivery. Some statements then return a row without an endpoint. */
function concernsDelivery({ rows, rowCount }: pg.QueryResult): boolean {
  return rows.length === 0 ? rowCount !== 0 : rows.some(({ endpointId }) => endpointId !== null);
}

function getStatementName(statement: unknown): string {
  if (typeof statement === "string") return statement.trimStart();
  const { name, text } = statement as { name?: string; text: string };
  return name ?? text.trimStart();
}
