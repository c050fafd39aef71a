import fs from "node:fs";
import { z } from "zod";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { collectDisclosure } from "../../disclosure/collect-disclosure.ts";
import { renderDisclosure } from "../../disclosure/render-disclosure.ts";
import { InputError } from "../framework/failure.ts";
import { createOperatorContext, requireOperator, withEventLog } from "../framework/operator.ts";
import { createProgressBar } from "../framework/progress-bar.ts";
import { parseOptions, type RawOptions, type Terminal } from "../framework/run-command.ts";

const schema = z.object({
  clinic: uuid,
  customer: uuid,
  format: z.enum(["json", "html"]).default("json"),
  output: z.string().min(1),
  actor: z.string().optional(),
  json: z.boolean().optional(),
});

const COMMAND_NAME = "customer disclose";

/** Time limit for one SQL statement. Milliseconds. */
const STATEMENT_TIMEOUT_MS = 30_000;

/**
 * Runs `customer disclose`: writes everything held about a customer, who saw it and who received it to a file that only
 * its owner can read. An existing file is never overwritten.
 *
 * @throws {InputError} that names the invalid options
 * @throws {DomainError | LogUnavailableError | ServerUnavailableError} if no data was collected
 */
export async function discloseCustomer(rawOptions: RawOptions, terminal: Terminal): Promise<void> {
  const { clinic: clinicId, customer: customerId, format, output, actor, json } = parseOptions(schema, rawOptions);
  if (fs.existsSync(output)) throw new InputError(`--output ${output} already exists; choose another file`);
  const context = createOperatorContext(requireOperator(terminal.env, actor), Date.now());
  const pool = createPool({
    url: readConfig(["DATABASE_URL"], terminal.env).DATABASE_URL,
    applicationName: "operator",
    size: 1,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    logger: createLogger("operator", "silent"),
  });
  const progressBar = createProgressBar(COMMAND_NAME, 1, terminal);
  const onProgress = ({ share }: { share: number }) =>
    progressBar.show(share, `${Math.floor(share * 100)} % of the log`);
  try {
    const disclosure = await withEventLog(terminal.env, (log, client, dataKeys) =>
      collectDisclosure({ log, client, dataKeys, pool, onProgress }, { clinicId, customerId }, context),
    );
    const text = format === "json" ? `${JSON.stringify(disclosure, null, 2)}\n` : renderDisclosure(disclosure);
    writeNewFile(output, text);
    const { id, appointments, changes, accesses, deliveries } = disclosure;
    const counts = { changes: changes.length, accesses: accesses.length, deliveries: deliveries.length };
    const summary = `${appointments.length} appointments, ${counts.changes} changes, ${counts.accesses} accesses, ${counts.deliveries} deliveries`;
    progressBar.end();
    await terminal.writeOutput(
      json
        ? JSON.stringify({ command: COMMAND_NAME, id, output, appointments: appointments.length, ...counts })
        : `${COMMAND_NAME}: wrote ${output}: ${summary}; recorded as access ${id}`,
    );
  } finally {
    progressBar.end();
    await pool.end();
  }
}

/**
 * Writes a new file that only its owner can read. If writing fails, no file is left behind.
 *
 * @throws {InputError} if the file exists or cannot be written
 */
function writeNewFile(file: string, text: string): void {
  let fd: number | undefined;
  try {
    fd = fs.openSync(file, "wx", 0o600);
    fs.writeFileSync(fd, text);
    fs.fsyncSync(fd);
  } catch (error) {
    if (fd !== undefined) fs.rmSync(file, { force: true });
    throw new InputError(`--output ${file} cannot be written: ${(error as Error).message}`);
  } finally {
    if (fd !== undefined) fs.closeSync(fd);
  }
}
