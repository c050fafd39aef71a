import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import { makeTestRoot } from "../../support/stack.ts";

const COPIED_FILES = [
  ...["package.json", "package-lock.json", "tsconfig.json", "tsconfig.build.json", "tsconfig.local.json"],
  ...["bootstrap.mjs", "setup/build.mjs", "setup/install.mjs", "setup/processes.mjs"].map(
    (name) => `deploy/local/${name}`,
  ),
  "deploy/local/setup/project.ts",
];

const PROGRAM = `
import { PROJECT_FOLDER, buildNodeCommand } from "../deploy/local/setup/project.ts";
const [, file]: string[] = buildNodeCommand("command/main.ts").args;
console.log(JSON.stringify([PROJECT_FOLDER, file, ...process.argv.slice(2)]));
`;

/** Creates a small project whose program is `command/main.ts`. */
function makeProject(program: string) {
  const folder = makeTestRoot();
  const resolveFile = (name: string) => path.join(folder, name);
  for (const name of ["bin", "command", "deploy/local/setup", "projection", "query-api", "shared"])
    fs.mkdirSync(resolveFile(name), { recursive: true });
  for (const name of COPIED_FILES) fs.copyFileSync(path.join(PROJECT_FOLDER, name), resolveFile(name));
  fs.symlinkSync(fs.realpathSync(path.join(PROJECT_FOLDER, "node_modules")), resolveFile("node_modules"));
  const write = (source: string) => fs.writeFileSync(resolveFile("command/main.ts"), source);
  write(program);
  const args = [resolveFile("deploy/local/bootstrap.mjs"), "--compiled", "command/main.ts", "--flag"];
  const env = { PATH: process.env.PATH };
  return {
    folder,
    write,
    run: () => spawnSync(process.execPath, args, { cwd: folder, env, encoding: "utf8" }),
    start: () => spawn(process.execPath, args, { cwd: folder, env, stdio: ["ignore", "pipe", "inherit"] }),
    /** Returns a value that changes with each compilation. */
    readBuildId: () => fs.statSync(resolveFile(".build")).ino,
  };
}

describe("bootstrap --compiled", () => {
  it("the compiled program knows the project's folder, its arguments, and the compiled files of other programs", () => {
    const { folder, run } = makeProject(PROGRAM);
    const { stdout, stderr } = run();
    expect(stderr).to.equal("");
    expect(JSON.parse(stdout)).to.eql([folder, path.join(folder, ".build/command/main.js"), "--flag"]);
  });

  it("a changed source file takes effect at the next start, and a syntax error stops the start with file and line", () => {
    const { write, run, readBuildId } = makeProject("console.log(1);");
    expect(run().stdout).to.equal("1\n");
    const firstBuildId = readBuildId();
    expect(run().stdout).to.equal("1\n");
    expect(readBuildId()).to.equal(firstBuildId);
    write("console.log(1);\nconst = 2;");
    const { status, stdout, stderr } = run();
    expect([status, stdout], "a syntax error").to.eql([1, ""]);
    expect(stderr).to.match(/^The project cannot be compiled\. .*:\ncommand\/main\.ts\(2,7\): error TS\d+: /);
    write("console.log(2);");
    expect(run().stdout).to.equal("2\n");
  });

  it("an error's stack trace names the line of the source file", () => {
    const { stderr } = makeProject("interface Unused {}\n\nthrow new Error('broken');").run();
    expect(stderr).to.match(/Error: broken\n {4}at .*\/command\/main\.ts:3:7/);
  });

  it("two concurrent starts run the same compiled program", async () => {
    const { start } = makeProject("console.log(1);");
    const outputPromises = [start(), start()].map(async (child) => {
      const [output, [code]] = await Promise.all([text(child.stdout), once(child, "exit")]);
      return [code, output];
    });
    expect(await Promise.all(outputPromises)).to.eql([
      [0, "1\n"],
      [0, "1\n"],
    ]);
  });
});
