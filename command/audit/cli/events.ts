import { listEvents, listQuerySchema, resolveDay } from "../queries/list-events.ts";
import { type CommandOptions, isVisibleToOperator, readQuery, withAuditedAccess } from "./audited-query.ts";
import { createProgressReporter } from "./scan-progress.ts";
import { formatTableHead, formatTableRow } from "./table.ts";
import type { AuditTerminal } from "./terminal.ts";

/** Prints events as a table or, with `--json`, as one JSON object per line. */
export async function showEvents({ actor, json, ...options }: CommandOptions, terminal: AuditTerminal): Promise<void> {
  const parameters = readQuery(listQuerySchema, options);
  await withAuditedAccess(terminal, { actor, action: "events", query: options }, async ({ client, dataKeys, log }) => {
    const query = await resolveDay(parameters, log);
    const progressReporter = createProgressReporter(terminal);
    const { signal } = new AbortController();
    const onProgress = progressReporter.show;
    const readOptions = { client, dataKeys, isVisible: isVisibleToOperator, signal, onProgress };
    const { events } = await listEvents(query, readOptions);
    let eventCount = 0;
    try {
      if (!json) await terminal.write(`${formatTableHead(terminal.columns)}\n`);
      for await (const event of events) {
        eventCount += 1;
        progressReporter.end();
        await terminal.write(`${json ? JSON.stringify(event) : formatTableRow(event, terminal.columns)}\n`);
      }
    } finally {
      progressReporter.end();
    }
    if (!json) terminal.writeError(`${eventCount} ${eventCount === 1 ? "event" : "events"}`);
  });
}
