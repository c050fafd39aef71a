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
import { getTestServers } from "./support/stack.ts";

const execFileAsync = promisify(execFile);
const root = fileURLToPath(new URL("..", import.meta.url));
const toBinPath = (name: string) => join(root, "node_modules", ".bin", name);

describe("the services, compiled for production", () => {
  let projectDir: string;

  before(async () => {
    // The build runs in a copy of the project, so it uses only declared files and does not affect other tests.
    projectDir = await mkdtemp(join(tmpdir(), "clinic-build-"));
    const sourceFolders = ["bin", "command", "projection", "query-api", "shared"];
    for (const name of [...sourceFolders, "package.json", "tsconfig.json", "tsconfig.build.json"])
      await cp(join(root, name), join(projectDir, name), { recursive: true });
    // `npm test` has already checked the types, which would take most of the time of the build.
    const buildConfigFile = join(projectDir, "tsconfig.build.json");
    const buildConfig = JSON.parse(await readFile(buildConfigFile, "utf8"));
    buildConfig.compilerOptions.noCheck = true;
    await writeFile(buildConfigFile, JSON.stringify(buildConfig));
    await symlink(join(root, "node_modules"), join(projectDir, "node_modules"));
    await execFileAsync("npm", ["run", "build"], { cwd: projectDir });
    await rm(join(projectDir, "node_modules"));
    await linkRuntimeDependencies();
  });

  after(() => rm(projectDir, { recursive: true, force: true }));

  /** Links only the packages that `npm ci --omit=dev` installs. The compiled code must not need others. */
  async function linkRuntimeDependencies(): Promise<void> {
    const packageLock = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8"));
    const packages = Object.entries(packageLock.packages as Record<string, { dev?: boolean }>);
    for (const [path, { dev }] of packages) {
      const isTopLevel = path.lastIndexOf("node_modules/") === 0;
      if (dev || !isTopLevel || !existsSync(join(root, path))) continue;
      await mkdir(dirname(join(projectDir, path)), { recursive: true });
      await symlink(join(root, path), join(projectDir, path));
    }
  }

  const toMainPath = (service: string) => join(projectDir, "dist", service, "main.js");

  for (const service of ["command", "projection", "query-api", "command/audit"])
    it(`plain Node can run the compiled ${service} service, which reports all missing settings in one line`, async () => {
      const failure = await execFileAsync(process.execPath, [toMainPath(service)], { env: {} }).catch((error) => error);
      expect(failure.code).to.equal(1);
      expect(failure.stderr).to.match(/^[a-z-]+: settings: .*DATABASE_URL is missing.*\n$/);
    });

  it("the compiled executable runs all command lines, and its help names the executable", async () => {
    const executablePath = join(projectDir, "dist", "bin", "clinic.js");
    const runClinic = (...args: string[]) => execFileAsync(executablePath, args, { env: { PATH: process.env.PATH } });
    const [helpResult, importHelpResult, projectionHelpResult, failure] = await Promise.all([
      runClinic("--help"),
      runClinic("import", "--help"),
      runClinic("projection", "--help"),
      runClinic("audit", "keys").catch((error) => error),
    ]);
    expect(helpResult.stdout).to.match(/\n {2}audit --help .*\n {2}projection --help /);
    expect(helpResult.stdout).to.match(/\nExample:\n {2}clinic clinic \w+ --/);
    const [, exampleFile = ""] =
      /\nA complete example is in this file:\n {2}(.*)\n/.exec(importHelpResult.stdout) ?? [];
    expect(await readFile(exampleFile, "utf8")).to.match(/^\{"command": /);
    expect(exampleFile).to.contain(join(projectDir, "dist"));
    expect(projectionHelpResult.stdout).to.match(/^Usage: clinic projection .*[\s\S]*\n {2}migrate /);
    expect(failure.code).to.equal(2);
    expect(failure.stderr).to.match(/^audit: settings: AUDIT_SIGNING_KEYS is missing/);
  });

  it("help, version and completion need neither the code of the commands nor its packages", async () => {
    const folder = await mkdtemp(join(tmpdir(), "clinic-help-"));
    for (const name of ["package.json", "dist/bin", "dist/shared/command-line"])
      await cp(join(projectDir, name), join(folder, name), { recursive: true });
    await mkdir(join(folder, "node_modules"));
    await symlink(join(root, "node_modules", "commander"), join(folder, "node_modules", "commander"));
    const runClinic = async (...args: string[]) =>
      (await execFileAsync(join(folder, "dist", "bin", "clinic.js"), args, { env: { PATH: process.env.PATH } })).stdout;
    expect(await runClinic("--help")).to.match(/\n {2}appointment +\w+, /);
    expect(await runClinic("appointment", "reschedule", "--help")).to.match(/\n {2}--scheduled-at <time> /);
    expect(await runClinic("audit", "--help")).to.match(/\n {2}events /);
    expect(await runClinic("--version")).to.match(/^clinic \d+\.\d+\.\d+\n$/);
    expect(await runClinic("complete", "projection", "")).to.match(/^status\t/);
    expect(await runClinic("completion", "fish")).to.contain("complete -c clinic");
    await rm(folder, { recursive: true });
  });

  it("the compiled query-api serves the documentation page, the page for partners, and all files that they load", async () => {
    const files = await loadPageFiles("query-api", queryEnvironment, ["/docs", "/partner"]);
    expect(files).to.include.members(["/docs/reference.js", "/docs/standalone.esm.js", "/api/v1/openapi.json"]);
    expect(files).to.include.members([
      "/partner/main.js",
      "/partner/session.js",
      "/partner/dom.js",
      "/partner/base.css",
    ]);
  });

  it("the compiled audit service serves the audit page and all files that the page loads", async () => {
    const { eventstoreUrl } = await getTestServers();
    const { DATABASE_URL } = queryEnvironment;
    const signingKeys = await createSigningKeys();
    const dataKeys = JSON.stringify({ current: "a", keys: { a: Buffer.alloc(32, 1).toString("base64") } });
    const keys = { AUDIT_SIGNING_KEYS: signingKeys, PERSONAL_DATA_KEYS: dataKeys };
    const env = { PORT: "0", EVENTSTORE_URL: eventstoreUrl, DATABASE_URL, ...keys };
    const files = await loadPageFiles("command/audit", env, ["/audit"]);
    expect(files).to.include.members(["/audit/main.js", "/audit/api.js", "/audit/audit.css"]);
  });

  /** Starts a service and returns the files that its pages load. Fails if a file is missing. */
  async function loadPageFiles(service: string, env: NodeJS.ProcessEnv, paths: string[]): Promise<string[]> {
    const child = spawn(process.execPath, [toMainPath(service)], {
      env: { ...env, DRAIN_DELAY_MS: "0", LOG_LEVEL: "info" },
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      let logText = "";
      child.stdout.on("data", (chunk) => {
        logText += chunk;
      });
      const url = await eventually("the service listens", () => /"url":"(http:[^"]+)"/.exec(logText)?.[1]);
      const loadFile = async (file: string) => {
        const response = await fetch(`${url}${file}`);
        expect(response.status, file).to.equal(200);
        return response.text();
      };
      const files = new Set<string>();
      for (const path of paths) {
        const html = await loadFile(path);
        for (const [, file = ""] of html.matchAll(/(?:src|href|data-document)="(\/[^"#]+)(?:#[^"]*)?"/g))
          files.add(file);
      }
      // Adds all modules that the module imports.
      for (const file of files) {
        const text = await loadFile(file);
        if (!file.endsWith(".js")) continue;
        for (const [, name] of text.matchAll(/\bfrom ?["`]\.\/([\w./-]+\.js)["`]/g))
          files.add(join(dirname(file), name ?? ""));
      }
      return [...files];
    } finally {
      const exitPromise = once(child, "exit");
      child.kill("SIGTERM");
      await exitPromise;
    }
  }
});

/** Importing file, imported path, and whether the linter allows the import. The file is named `x.ts` with an index. */
const IMPORTS = [
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
] as const;

describe("the import rules of biome.json", () => {
  let projectDir: string;
  let refusedPaths: Set<string>;
  /** Adds an index to the file name, because several cases have the same path. */
  const nameFile = (path: string, index: number) => path.replace("x.ts", `x${index}.ts`);

  before(async () => {
    projectDir = await mkdtemp(join(tmpdir(), "clinic-lint-"));
    for (const name of ["biome.json", ".gitignore"]) await copyFile(join(root, name), join(projectDir, name));
    for (const [index, [path, importedPath]] of IMPORTS.entries()) {
      const file = join(projectDir, nameFile(path, index));
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, `import { x } from "${importedPath}";\n\nexport const y = x;\n`);
    }
    // All files are linted at once, because most of the time of the linter is its start.
    const args = ["lint", "--reporter=json", "--max-diagnostics=none"];
    const { stdout } = await execFileAsync(toBinPath("biome"), args, { cwd: projectDir }).catch((error) => error);
    const diagnostics: { category: string; location: { path: string } }[] = JSON.parse(stdout).diagnostics;
    const refusals = diagnostics.filter(({ category }) => category === "lint/style/noRestrictedImports");
    refusedPaths = new Set(refusals.map(({ location }) => location.path));
  });

  after(() => rm(projectDir, { recursive: true }));

  for (const [index, [path, importedPath, expectedVerdict]] of IMPORTS.entries())
    it(`the linter ${expectedVerdict === "allowed" ? "allows" : "refuses"} an import of ${importedPath} in ${path}`, () => {
      expect(refusedPaths.has(nameFile(path, index)) ? "refused" : "allowed").to.equal(expectedVerdict);
    });
});
