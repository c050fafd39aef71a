import { latestQuerySchema, listLatestEvents } from "../queries/list-latest.ts";
import { type CommandOptions, isVisibleToOperator, readQuery, withAuditedAccess } from "./audited-query.ts";
import { formatTableHead, formatTableRow } from "./table.ts";
import type { AuditTerminal } from "./terminal.ts";

/** Prints the latest events of a clinic, the newest first. */
export async function showLatestEvents(
  { actor, json, ...options }: CommandOptions,
  terminal: AuditTerminal,
): Promise<void> {
  const query = readQuery(latestQuerySchema, options);
  await withAuditedAccess(terminal, { actor, action: "latest", query: options }, async ({ client, dataKeys }) => {
    const { events, next } = await listLatestEvents(query, { client, dataKeys, isVisible: isVisibleToOperator });
    if (!json) await terminal.write(`${formatTableHead(terminal.columns)}\n`);
    for (const event of events) {
      await terminal.write(`${json ? JSON.stringify(event) : formatTableRow(event, terminal.columns)}\n`);
    }
    if (next !== null) terminal.writeError(`For earlier events, add --before ${next}`);
  });
}
