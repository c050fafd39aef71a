#!/usr/bin/env -S node --max-semi-space-size=64
/**
 * The executable of the product, with all command lines: `clinic audit …` for auditors, `clinic projection …` for
 * operators of the read models, and `clinic <noun> <verb> …` for operators of clinics and partners.
 *
 * With a young generation of this size (MiB), commands that read the whole log spend less time on garbage collection.
 */

/** Loads only the code of the chosen command line, because loading takes most of the time of a short command. */
const commandLines = {
  audit: () => import("../command/audit/cli/main.ts"),
  projection: () => import("../projection/cli/main.ts"),
};

const [, , name = ""] = process.argv;
if (name === "audit" || name === "projection") {
  process.argv.splice(2, 1);
  await commandLines[name]();
} else {
  await import("../command/cli/main.ts");
}
