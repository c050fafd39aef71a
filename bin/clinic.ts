#!/usr/bin/env -S node --max-semi-space-size=64
/**
 * The executable of the product. `clinic audit …` is for auditors, `clinic projection …` for operators of the read
 * models, and `clinic <noun> <verb> …` for operators of clinics and partners.
 *
 * The first line sets V8's young generation to 64 MiB. This saves garbage collection in commands that read the whole
 * log.
 */
import fs from "node:fs";
import path from "node:path";
import { completeWords, formatCompletionScript } from "../shared/command-line/completion.ts";
import { EXIT_CODE } from "../shared/command-line/failure.ts";
import { type CommandLineTexts, runProgram } from "../shared/command-line/program.ts";
import { runInProcess } from "../shared/command-line/terminal.ts";
import { loaders } from "./command-lines.ts";

/**
 * Help texts of all command lines, written by the build. Without the file, each start loads the code of a command line.
 */
type Index = Record<keyof typeof loaders, CommandLineTexts>;

function readJson<Content>(...file: string[]): Content | undefined {
  const name = path.join(import.meta.dirname, ...file);
  return fs.existsSync(name) ? JSON.parse(fs.readFileSync(name, "utf8")) : undefined;
}

const index = readJson<Index>("command-lines.json");

async function getTexts(name: keyof typeof loaders): Promise<CommandLineTexts> {
  if (index) return index[name];
  const { describeCommandLine } = await import("../shared/command-line/command-line.ts");
  return describeCommandLine(await loaders[name]());
}

await runInProcess(async (args, terminal) => {
  const [first = "", ...others] = args;
  if (first === "--version" || first === "-V") {
    // The compiled executable is one folder deeper than its source.
    const manifest = readJson<{ version: string }>("../package.json") ?? readJson("../../package.json");
    await terminal.writeOutput(`clinic ${manifest?.version}`);
    return EXIT_CODE.done;
  }
  if (first === "complete") {
    const texts = await Promise.all((["clinic", "audit", "projection"] as const).map(getTexts));
    for (const candidate of completeWords(texts, others)) await terminal.writeOutput(candidate);
    return EXIT_CODE.done;
  }
  const script = first === "completion" ? formatCompletionScript(others[0]) : undefined;
  if (script) {
    await terminal.writeOutput(script);
    return EXIT_CODE.done;
  }
  const name = first === "audit" || first === "projection" ? first : "clinic";
  return runProgram(await getTexts(name), loaders[name], name === "clinic" ? args : others, terminal);
});
