import { listEvents, listQuestion } from "../queries/list-events.ts";
import { type HowToAnswer, looking, questionOf, seesAll } from "./audited-query.ts";
import { createScanProgress } from "./scan-progress.ts";
import { tableHead, tableRow } from "./table.ts";
import type { AuditTerminal } from "./terminal.ts";

/** Lists events, as a table for people or a JSON object a line for programs. */
export async function showEvents(
  { actor, json, ...given }: HowToAnswer & Record<string, unknown>,
  terminal: AuditTerminal,
): Promise<void> {
  const asked = questionOf(listQuestion, given);
  await looking(terminal, { actor, action: "events", asked: given }, async ({ client }) => {
    const progress = createScanProgress(terminal);
    const { signal } = new AbortController();
    const onProgress = progress.show;
    const { events } = await listEvents(asked, { client, maySee: seesAll, signal, onProgress });
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
