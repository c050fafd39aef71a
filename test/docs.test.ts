import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";

const root = fileURLToPath(new URL("..", import.meta.url));

const FOLDERS = ["command", "projection", "query-api", "shared", "deploy", "test", "docs", ".github", ".ci"];

/** A path that starts with one of these folders. */
const REPOSITORY_PATH = new RegExp(`^(${FOLDERS.join("|").replaceAll(".", "\\.")})(/[\\w.{},*…-]+)*/?$`);

/** Parts of a path that stand for many names. */
const PLACEHOLDER = /[<>*…{}]/;

describe("The documents", () => {
  it("link only to files and headings that exist", async () => {
    const broken: string[] = [];
    for (const { name, text } of await documents()) {
      for (const [, target = ""] of prose(text).matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^[a-z]+:/.test(target)) continue;
        const [path = "", anchor] = target.split("#");
        const file = path === "" ? join(root, name) : join(root, dirname(name), path);
        if (!existsSync(file)) broken.push(`${name}: ${target}`);
        else if (anchor && !headings(await readFile(file, "utf8")).has(anchor))
          broken.push(`${name}: ${target}`);
      }
    }
    expect(broken).to.deep.equal([]);
  });

  it("name only files and folders that exist", async () => {
    const missing: string[] = [];
    for (const { name, text } of await documents()) {
      for (const [, code = ""] of prose(text).matchAll(/`([^`\n]+)`/g)) {
        if (!REPOSITORY_PATH.test(code) || PLACEHOLDER.test(code)) continue;
        if (!existsSync(join(root, code))) missing.push(`${name}: ${code}`);
      }
    }
    expect(missing).to.deep.equal([]);
  });

  it("name only npm scripts that exist", async () => {
    const { scripts } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
    const unknown: string[] = [];
    for (const { name, text } of await documents()) {
      for (const [, script = ""] of text.matchAll(/npm run (?:-s )?([a-z]+)/g)) {
        if (!Object.hasOwn(scripts, script)) unknown.push(`${name}: npm run ${script}`);
      }
    }
    expect(unknown).to.deep.equal([]);
  });

  it("are all reachable from the README", async () => {
    const names = (await documents()).map(({ name }) => name);
    const reached = new Set(["README.md"]);
    for (const name of reached) {
      const text = await readFile(join(root, name), "utf8");
      for (const [, target = ""] of prose(text).matchAll(/\]\(([^)\s#]+\.md)/g)) {
        if (!/^[a-z]+:/.test(target)) reached.add(join(dirname(name), target));
      }
    }
    expect(names.filter((name) => !reached.has(name))).to.deep.equal([]);
  });
});

/** The Markdown files of the repository: at its root, and in its own folders. */
async function documents(): Promise<{ name: string; text: string }[]> {
  const isDocument = (name: string) => name.endsWith(".md");
  const inFolders = FOLDERS.map(async (folder) => {
    const names = await readdir(join(root, folder), { recursive: true });
    return names.filter(isDocument).map((name) => join(folder, name));
  });
  const names = [...(await readdir(root)).filter(isDocument), ...(await Promise.all(inFolders)).flat()];
  return Promise.all(names.map(async (name) => ({ name, text: await readFile(join(root, name), "utf8") })));
}

/** Leaves out fenced code blocks: their contents are examples. */
function prose(text: string): string {
  return text.replace(/^```[\s\S]*?^```/gm, "");
}

/** Anchors as GitHub derives them from headings. */
function headings(text: string): Set<string> {
  const titles = [...prose(text).matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) => title);
  return new Set(
    titles.map((title) =>
      title
        .toLowerCase()
        .replace(/[^\w\- ]/g, "")
        .replace(/ /g, "-"),
    ),
  );
}
