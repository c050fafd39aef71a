import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { auditCommandLine } from "../command/audit/cli/command-line.ts";
import { clinicCommandLine } from "../command/cli/command-line.ts";
import { projectionCommandLine } from "../projection/cli/command-line.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

const FOLDERS = ["bin", "command", "projection", "query-api", "shared", "deploy", "test", "docs", ".github", ".ci"];

/** Matches paths that start with one of these folders. */
const REPOSITORY_PATH = new RegExp(`^(${FOLDERS.join("|").replaceAll(".", "\\.")})(/[\\w.{},*…-]+)*/?$`);

/** Matches placeholders in a path, such as `*` or `<name>`. */
const PLACEHOLDER = /[<>*…{}]/;

describe("the Markdown documents", () => {
  it("the Markdown documents link only to files and headings that exist", async () => {
    const brokenLinks: string[] = [];
    for (const { name, text } of await readDocuments()) {
      for (const [, target = ""] of removeCodeBlocks(text).matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^[a-z]+:/.test(target)) continue;
        const [path = "", anchor] = target.split("#");
        const file = path === "" ? join(root, name) : join(root, dirname(name), path);
        if (!existsSync(file)) brokenLinks.push(`${name}: ${target}`);
        else if (anchor && !listAnchors(await readFile(file, "utf8")).has(anchor))
          brokenLinks.push(`${name}: ${target}`);
      }
    }
    expect(brokenLinks).to.deep.equal([]);
  });

  it("the Markdown documents name only files and folders that exist", async () => {
    const missingPaths: string[] = [];
    for (const { name, text } of await readDocuments()) {
      for (const [, codeSpan = ""] of removeCodeBlocks(text).matchAll(/`([^`\n]+)`/g)) {
        if (!REPOSITORY_PATH.test(codeSpan) || PLACEHOLDER.test(codeSpan)) continue;
        if (!existsSync(join(root, codeSpan))) missingPaths.push(`${name}: ${codeSpan}`);
      }
    }
    expect(missingPaths).to.deep.equal([]);
  });

  it("the Markdown documents name only npm scripts that exist", async () => {
    const { scripts } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
    const unknownScripts: string[] = [];
    for (const { name, text } of await readDocuments()) {
      for (const [, script = ""] of text.matchAll(/npm run (?:-s )?([a-z]+)/g)) {
        if (!Object.hasOwn(scripts, script)) unknownScripts.push(`${name}: npm run ${script}`);
      }
    }
    expect(unknownScripts).to.deep.equal([]);
  });

  it("the Markdown documents name only commands that exist", async () => {
    const commandLines = [clinicCommandLine, auditCommandLine, projectionCommandLine];
    const commands = commandLines.flatMap(({ program, commands }) => commands.map(({ name }) => `${program} ${name} `));
    const unknownCommands: string[] = [];
    for (const { name, text } of await readDocuments()) {
      const code = text.match(/^```[\s\S]*?^```|`[^`]+`/gm)?.map((part) => part.replace(/^(`[^`]*)\n/, "$1 ")) ?? [];
      const calls = code.join("\n").replaceAll(/npm run (?:-s )?(?:clinic|(audit|projection)) -- /g, "clinic $1 ");
      // A container or service of this name can come before the command.
      for (const [call] of calls.matchAll(/(?<=^|[ `(])clinic +(?!clinic p)[a-z][a-z-]*( [a-z][a-z-]+){1,2}/gm))
        if (!commands.some((command) => `${call} `.replace(/ +/, " ").startsWith(command)))
          unknownCommands.push(`${name}: ${call}`);
    }
    expect(unknownCommands).to.deep.equal([]);
  });

  it("all Markdown documents are reachable from the README through links", async () => {
    const names = (await readDocuments()).map(({ name }) => name);
    const reachedDocuments = new Set(["README.md"]);
    for (const name of reachedDocuments) {
      const text = await readFile(join(root, name), "utf8");
      for (const [, target = ""] of removeCodeBlocks(text).matchAll(/\]\(([^)\s#]+\.md)/g)) {
        if (!/^[a-z]+:/.test(target)) reachedDocuments.add(join(dirname(name), target));
      }
    }
    expect(names.filter((name) => !reachedDocuments.has(name))).to.deep.equal([]);
  });
});

/** Returns the Markdown files of the repository. */
async function readDocuments(): Promise<{ name: string; text: string }[]> {
  const isDocument = (name: string) => name.endsWith(".md");
  const namePromises = FOLDERS.map(async (folder) => {
    const names = await readdir(join(root, folder), { recursive: true });
    return names.filter(isDocument).map((name) => join(folder, name));
  });
  const names = [...(await readdir(root)).filter(isDocument), ...(await Promise.all(namePromises)).flat()];
  return Promise.all(names.map(async (name) => ({ name, text: await readFile(join(root, name), "utf8") })));
}

/** Removes fenced code blocks, because their links are only examples. */
function removeCodeBlocks(text: string): string {
  return text.replace(/^```[\s\S]*?^```/gm, "");
}

/** Returns the anchors that GitHub derives from the headings. */
function listAnchors(text: string): Set<string> {
  const titles = [...removeCodeBlocks(text).matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) => title);
  return new Set(
    titles.map((title) =>
      title
        .toLowerCase()
        .replace(/[^\w\- ]/g, "")
        .replace(/ /g, "-"),
    ),
  );
}
