import { listEvents, listQuery } from "../queries/list-events.ts";
import { everythingIsVisible, type OutputOptions, readQuery, withAuditedAccess } from "./audited-query.ts";
import { createScanProgress } from "./scan-progress.ts";
import { tableHead, tableRow } from "./table.ts";
import type { AuditTerminal } from "./terminal.ts";

/** Prints events as a table or as one JSON object per line. */
export async function showEvents(
  { actor, json, ...given }: OutputOptions & Record<string, unknown>,
  terminal: AuditTerminal,
): Promise<void> {
  const query = readQuery(listQuery, given);
  await withAuditedAccess(terminal, { actor, action: "events", asked: given }, async ({ client }) => {
    const progress = createScanProgress(terminal);
    const { signal } = new AbortController();
    const onProgress = progress.show;
    const { events } = await listEvents(query, {
      client,
      isVisible: everythingIsVisible,
      signal,
      onProgress,
    });
    let count = 0;
    try {
      if (!json) await terminal.write(`${tableHead(terminal.columns)}\n`);
      for await (const event of events) {
        count += 1;
        progress.end();
        await terminal.write(`${json ? JSON.stringify(event) : tableRow(event, terminal.columns)}\n`);
      }
    } finally {
      progress.end();
    }
    if (!json) terminal.err(`${count} ${count === 1 ? "event" : "events"}`);
  });
}
