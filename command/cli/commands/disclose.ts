import { z } from "zod";
import { defineCommand } from "../../../shared/command-line/command-line.ts";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import { actorOption, requireOperator } from "../../../shared/command-line/operator.ts";
import { jsonOption, option } from "../../../shared/command-line/option.ts";
import { requireNewFile, writeAtomically } from "../../audit/cli/output-file.ts";
import { AuditIndex } from "../../audit/index/audit-index.ts";
import { collectDisclosure } from "../../disclosure/collect-disclosure.ts";
import { renderDisclosure } from "../../disclosure/render-disclosure.ts";
import { createOperatorContext } from "../../handling/operator.ts";
import { clinic } from "../options.ts";
import { withReadModels } from "../read-models.ts";

const COMMAND_NAME = "customer disclose";

export const discloseCommand = defineCommand({
  name: COMMAND_NAME,
  summary:
    "Writes everything held about a customer to a file: all data, its changes, who saw it, and who received it. The disclosure itself is recorded.",
  options: {
    clinic,
    customer: option.id("the customer"),
    format: option.text(
      z.enum(["json", "html"]).default("json"),
      "json, or html for a printable page; default: json",
      "format",
    ),
    out: option.text(z.string().min(1), "output file, which must not exist; only its owner can read it", "file"),
    actor: actorOption,
    json: jsonOption,
  },
  example:
    "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001 --customer 5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002 --format html --out disclosure.html",
  details: "Needs the DATABASE_URL of the projection service, and the keys of the personal data.",
  async run({ clinic: clinicId, customer: customerId, format, out, actor, json }, terminal) {
    requireNewFile(out);
    const context = createOperatorContext(requireOperator(terminal.env, actor), Date.now());
    const disclosure = await withReadModels(terminal.env, ({ readableLog: log, client, dataKeys, pool }) =>
      collectDisclosure(
        { log, client, index: new AuditIndex(() => pool), dataKeys, pool },
        { clinicId, customerId },
        context,
      ),
    );
    const text = format === "json" ? `${JSON.stringify(disclosure, null, 2)}\n` : renderDisclosure(disclosure);
    await writeAtomically(out, [text]);
    const { id, appointments, changes, accesses, deliveries } = disclosure;
    const counts = { changes: changes.length, accesses: accesses.length, deliveries: deliveries.length };
    const summary = [
      formatCount(appointments.length, "appointment"),
      formatCount(counts.changes, "change"),
      formatCount(counts.accesses, "access"),
      formatCount(counts.deliveries, "delivery"),
    ].join(", ");
    await terminal.writeOutput(
      json
        ? JSON.stringify({ command: COMMAND_NAME, id, file: out, appointments: appointments.length, ...counts })
        : `${COMMAND_NAME}: wrote ${out}: ${summary}; recorded as access ${id}`,
    );
  },
});
