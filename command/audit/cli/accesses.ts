import { accessesQuerySchema, type ClinicAccess, listAccesses } from "../access/list-accesses.ts";
import { type CommandOptions, readQuery, withAuditedAccess } from "./audited-query.ts";
import { createProgressReporter } from "./scan-progress.ts";
import { formatActor } from "./table.ts";
import { type AuditTerminal, escapeControlCharacters, truncateLine } from "./terminal.ts";

/** Prints who read or exported the records of a clinic. */
export async function showAccesses(
  { actor, json, ...options }: CommandOptions,
  terminal: AuditTerminal,
): Promise<void> {
  const query = readQuery(accessesQuerySchema, options);
  await withAuditedAccess(terminal, { actor, action: "accesses", query: options }, async ({ log, client }) => {
    const progressReporter = createProgressReporter(terminal);
    const { signal } = new AbortController();
    const readOptions = {
      personalLog: log,
      client,
      permittedClinicIds: null,
      signal,
      onProgress: progressReporter.show,
    };
    let accessCount = 0;
    try {
      for await (const access of listAccesses(query, readOptions)) {
        accessCount += 1;
        progressReporter.end();
        await terminal.write(`${json ? JSON.stringify(access) : formatAccess(access, terminal.columns)}\n`);
      }
    } finally {
      progressReporter.end();
    }
    if (!json) terminal.writeError(`${accessCount} ${accessCount === 1 ? "access" : "accesses"}`);
  });
}

function formatAccess({ at, actor, auditorName, action, relation, asked }: ClinicAccess, columns?: number): string {
  const name = auditorName === null ? "" : ` ${auditorName}`;
  const cells = [at, action.padEnd(12), relation.padEnd(8), `${formatActor({ actor })}${name}`, JSON.stringify(asked)];
  return truncateLine(escapeControlCharacters(cells.join("  ")), columns);
}
