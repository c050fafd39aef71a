/** Sets up a clinic and a partner with the commands of docs/operations/onboarding.md. */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Machine, runOn } from "./machine.ts";
import type { Account } from "./partner.ts";

/** Replacements in the commands: values that a person would choose or copy from an output, and a higher rate limit. */
const CHOICES: [searched: string, replacement: string][] = [
  ["<sub of the session>", randomUUID()],
  ["clinic partner issue-credential --application $APPLICATION", "SECRET=$(<command> --json | jq -r .clientSecret)"],
  ["<client secret>", "$SECRET"],
  ["--membership $OWNER ", "--membership $OWNER --rate-limit-per-minute 6000 "],
];

/** @throws {Error} if the document lacks a text in `CHOICES`, or if a command fails */
export async function setUpClinic(machine: Machine, projectFolder: string): Promise<Account> {
  const document = readFileSync(join(projectFolder, "docs/operations/onboarding.md"), "utf8");
  let script = Array.from(document.matchAll(/^```sh\n([\s\S]*?)^```$/gm), ([, block]) => block).join("");
  for (const [searched, replacement] of CHOICES) {
    if (!script.includes(searched)) throw new Error(`onboarding.md does not contain ${searched}`);
    script = script.replace(searched, () => replacement.replace("<command>", searched));
  }
  const output = await runOn(
    machine,
    `set -a; . /etc/clinic/clinic.env; CURL_CA_BUNDLE=/etc/ssl/clinic/ca.crt; set +a
${script}
printf '\\n%s %s %s %s %s' $CLINIC $BRANCH $ANIMAL $APPLICATION $SECRET`,
  );
  const [clinic = "", branch = "", animal = "", application = "", secret = ""] =
    output.split("\n").at(-1)?.split(" ") ?? [];
  return { clinic, branch, animal, application, secret };
}
