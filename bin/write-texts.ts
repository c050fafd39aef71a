/** Writes the texts of all command lines next to the executable. The build runs this program. */
import fs from "node:fs";
import path from "node:path";
import { describeCommandLine } from "../shared/command-line/command-line.ts";
import { loaders } from "./command-lines.ts";

const texts = Object.entries(loaders).map(async ([name, load]) => [name, describeCommandLine(await load())]);
const file = path.join(import.meta.dirname, "command-lines.json");
fs.writeFileSync(file, JSON.stringify(Object.fromEntries(await Promise.all(texts))));
