import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect } from "chai";

const run = promisify(execFile);
const root = fileURLToPath(new URL("..", import.meta.url));
const bin = (name: string) => join(root, "node_modules", ".bin", name);

describe("the services, compiled for production", function () {
  this.timeout(30_000);
  let out: string;

  before(async () => {
    // Beside node_modules, so that the compiled code finds its dependencies.
    out = await mkdtemp(join(root, "node_modules", ".build-test-"));
    await run(bin("tsc"), ["-p", "tsconfig.build.json", "--outDir", out], { cwd: root });
  });

  after(() => rm(out, { recursive: true, force: true }));

  for (const service of ["command", "projection", "query-api"]) {
    it(`${service} runs on plain Node, and says in one line which settings are missing`, async () => {
      const failure = await run(process.execPath, [join(out, service, "main.js")], { env: {} }).catch(
        (error) => error,
      );
      expect(failure.code).to.equal(1);
      expect(failure.stderr).to.match(/^[a-z-]+: settings: .*DATABASE_URL is missing.*\n$/);
    });
  }
});

describe("the rule between the folders", () => {
  let project: string;

  before(async () => {
    project = await mkdtemp(join(tmpdir(), "clinic-lint-"));
    for (const name of ["biome.json", ".gitignore"]) await copyFile(join(root, name), join(project, name));
  });

  after(() => rm(project, { recursive: true }));

  async function lint(path: string, imported: string): Promise<string> {
    const file = join(project, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, `import { x } from "${imported}";\n\nexport const y = x;\n`);
    const { stdout, stderr } = await run(bin("biome"), ["lint", path], { cwd: project }).catch(
      (error) => error,
    );
    return `${stdout}${stderr}`.includes("noRestrictedImports") ? "refused" : "allowed";
  }

  for (const [path, imported, verdict] of [
    ["command/x.ts", "../projection/role.ts", "refused"],
    ["command/partner/x.ts", "../../query-api/app.ts", "refused"],
    ["projection/x.ts", "../command/handle.ts", "refused"],
    ["query-api/portal/x.ts", "../../projection/role.ts", "refused"],
    ["shared/http/x.ts", "../../command/handle.ts", "refused"],
    ["shared/x.ts", "../test/support/stack.ts", "refused"],
    ["query-api/x.ts", "../deploy/local/ports.ts", "refused"],
    ["command/x.ts", "../shared/http/app.ts", "allowed"],
    ["test/x.ts", "../projection/role.ts", "allowed"],
  ] as const) {
    it(`${path} may${verdict === "allowed" ? "" : " not"} import ${imported}`, async () => {
      expect(await lint(path, imported)).to.equal(verdict);
    });
  }
});
