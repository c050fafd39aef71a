import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { copyFile, cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect } from "chai";
import { createSigningKeys } from "./command/audit/world.ts";
import { eventually } from "./support/eventually.ts";
import { queryEnvironment } from "./support/query-environment.ts";
import { testServers } from "./support/stack.ts";

const run = promisify(execFile);
const root = fileURLToPath(new URL("..", import.meta.url));
const bin = (name: string) => join(root, "node_modules", ".bin", name);

describe("the services, compiled for production", function () {
  this.timeout(60_000);
  let project: string;

  before(async () => {
    // A copy, so that the build is the one that the package declares and nothing else here sees it.
    project = await mkdtemp(join(tmpdir(), "clinic-build-"));
    const sources = ["command", "projection", "query-api", "shared"];
    for (const name of [...sources, "package.json", "tsconfig.json", "tsconfig.build.json"]) {
      await cp(join(root, name), join(project, name), { recursive: true });
    }
    await symlink(join(root, "node_modules"), join(project, "node_modules"));
    await run("npm", ["run", "build"], { cwd: project });
    await rm(join(project, "node_modules"));
    await linkRuntimeDependencies();
  });

  after(() => rm(project, { recursive: true, force: true }));

  /** Only what `npm ci --omit=dev` installs is there for the compiled code to import. */
  async function linkRuntimeDependencies(): Promise<void> {
    const lock = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8"));
    const packages = Object.entries(lock.packages as Record<string, { dev?: boolean }>);
    for (const [path, { dev }] of packages) {
      const topmost = path.lastIndexOf("node_modules/") === 0;
      if (dev || !topmost || !existsSync(join(root, path))) continue;
      await mkdir(dirname(join(project, path)), { recursive: true });
      await symlink(join(root, path), join(project, path));
    }
  }

  const main = (service: string) => join(project, "dist", service, "main.js");

  for (const service of ["command", "projection", "query-api", "command/audit"]) {
    it(`${service} runs on plain Node, and says in one line which settings are missing`, async () => {
      const failure = await run(process.execPath, [main(service)], { env: {} }).catch((error) => error);
      expect(failure.code).to.equal(1);
      expect(failure.stderr).to.match(/^[a-z-]+: settings: .*DATABASE_URL is missing.*\n$/);
    });
  }

  it("query-api finds the page of its documents, the page's own files and the renderer's", async () => {
    const files = await filesOfPage("query-api", queryEnvironment, "/docs");
    expect(files).to.include.members(["/docs/docs.js", "/docs/swagger-ui.css", "/api/v1/openapi.json"]);
  });

  it("audit finds its page and the page's files", async () => {
    const { eventstoreUrl } = await testServers();
    const { DATABASE_URL } = queryEnvironment;
    const keys = await createSigningKeys();
    const env = { PORT: "0", EVENTSTORE_URL: eventstoreUrl, DATABASE_URL, AUDIT_SIGNING_KEYS: keys };
    const files = await filesOfPage("command/audit", env, "/audit");
    expect(files).to.include.members(["/audit/main.js", "/audit/api.js", "/audit/audit.css"]);
  });

  /** Runs a service, and gives what its page loads, all of which is there. */
  async function filesOfPage(service: string, env: NodeJS.ProcessEnv, path: string): Promise<string[]> {
    const child = spawn(process.execPath, [main(service)], {
      env: { ...env, LOG_LEVEL: "info" },
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      let log = "";
      child.stdout.on("data", (chunk) => {
        log += chunk;
      });
      const url = await eventually("it listens", () => /"url":"(http:[^"]+)"/.exec(log)?.[1]);
      const get = async (file: string) => {
        const answer = await fetch(`${url}${file}`);
        expect(answer.status, file).to.equal(200);
        return answer.text();
      };
      const files = new Set<string>();
      for (const [, file = ""] of (await get(path)).matchAll(/(?:src|href|data-document)="(\/[^"]+)"/g))
        files.add(file);
      // Modules name others.
      for (const file of files) {
        const text = await get(file);
        if (!file.endsWith(".js")) continue;
        for (const [, name] of text.matchAll(/^import .*from "\.\/([\w-]+\.js)"/gm))
          files.add(join(dirname(file), name ?? ""));
      }
      return [...files];
    } finally {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
    }
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
    ["command/x.ts", "../projection/roles/role.ts", "refused"],
    ["command/partner-api/x.ts", "../../query-api/app.ts", "refused"],
    ["projection/x.ts", "../command/handling/handle.ts", "refused"],
    ["query-api/portal/x.ts", "../../projection/roles/role.ts", "refused"],
    ["shared/http/x.ts", "../../command/handling/handle.ts", "refused"],
    ["shared/x.ts", "../test/support/stack.ts", "refused"],
    ["query-api/x.ts", "../deploy/local/setup/ports.ts", "refused"],
    ["shared/domain/x.ts", "../http/app.ts", "refused"],
    ["shared/domain/x.ts", "node:fs/promises", "refused"],
    ["shared/domain/clinic/x.ts", "../../http/app.ts", "refused"],
    ["shared/domain/clinic/x.ts", "node:crypto", "refused"],
    ["shared/domain/clinic/x.ts", "koa", "refused"],
    ["shared/domain/clinic/x.ts", "zod", "allowed"],
    ["shared/domain/clinic/x.ts", "../events/ids.ts", "allowed"],
    ["command/x.ts", "../shared/http/app.ts", "allowed"],
    ["test/x.ts", "../projection/roles/role.ts", "allowed"],
  ] as const) {
    it(`${path} may${verdict === "allowed" ? "" : " not"} import ${imported}`, async () => {
      expect(await lint(path, imported)).to.equal(verdict);
    });
  }
});
