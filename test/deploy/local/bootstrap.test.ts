import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import { makeTestRoot } from "../../support/stack.ts";

/** Script of a fake npm: records its arguments, waits 300 ms, and creates the package `tsx` and its lock file. */
const FAKE_NPM = `
const fs = require("node:fs");
fs.appendFileSync("npm-calls", process.argv.slice(2).join(" ") + "\\n");
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
if (fs.existsSync("npm-fails")) { console.error("npm error: no network"); process.exit(1); }
fs.rmSync("node_modules", { recursive: true, force: true });
fs.mkdirSync("node_modules/tsx", { recursive: true });
fs.writeFileSync("node_modules/tsx/index.js", "");
fs.copyFileSync("package-lock.json", "node_modules/.package-lock.json");
`;

/** Creates a minimal clone: the bootstrap, a lock file with one package, and the given entry script. */
function makeClone(entryScript: string) {
  const folder = makeTestRoot();
  const write = (name: string, text: string) => {
    fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    fs.writeFileSync(path.join(folder, name), text);
  };
  const moduleNames = ["build.mjs", "install.mjs", "processes.mjs"].map((name) => `setup/${name}`);
  for (const name of ["bootstrap.mjs", ...moduleNames])
    write(`deploy/local/${name}`, fs.readFileSync(path.join(PROJECT_FOLDER, "deploy/local", name), "utf8"));
  const writeLockFile = (version: string) =>
    write("package-lock.json", JSON.stringify({ packages: { "": {}, "node_modules/tsx": { version } } }));
  writeLockFile("1.0.0");
  write("entry.mjs", entryScript);
  write("npm-cli.js", FAKE_NPM);
  const args = ["deploy/local/bootstrap.mjs", "entry.mjs", "one", "two"];
  const options = { cwd: folder, env: { PATH: process.env.PATH, npm_execpath: path.join(folder, "npm-cli.js") } };
  const readNpmCalls = () =>
    fs.existsSync(`${folder}/npm-calls`) ? fs.readFileSync(`${folder}/npm-calls`, "utf8") : "";
  return {
    write,
    folder,
    writeLockFile,
    run: (env: NodeJS.ProcessEnv = {}) =>
      spawnSync(process.execPath, args, { ...options, env: { ...options.env, ...env }, encoding: "utf8" }),
    start: () => spawn(process.execPath, args, { ...options, stdio: ["ignore", "pipe", "ignore"] }),
    countInstalls: () => readNpmCalls().split("\n").length - 1,
    readNpmCalls,
  };
}

describe("bootstrap", () => {
  it("on Windows, bootstrap names the supported system in one line and installs nothing", () => {
    const clone = makeClone("");
    const script = 'Object.defineProperty(process, "platform", { value: "win32" })';
    const result = clone.run({ NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` });
    expect([result.status, result.stderr]).to.eql([1, "This project does not run on Windows. Use Linux in WSL 2.\n"]);
    expect(clone.countInstalls()).to.equal(0);
  });

  it("bootstrap forwards arguments and the exit code, and installs packages only if the lock file has changed", () => {
    const clone = makeClone("console.log(process.argv.slice(2).join()); process.exit(7)");
    const firstRun = clone.run();
    expect([firstRun.status, firstRun.stdout.trim()]).to.eql([7, "one,two"]);
    expect(firstRun.stderr).to.include("Installing the dependencies (npm ci)");
    expect(clone.readNpmCalls()).to.match(/^ci --include=dev /);
    expect(clone.run().stderr).to.equal("");
    expect(clone.countInstalls()).to.equal(1);
    clone.writeLockFile("1.0.1");
    expect(clone.run().status).to.equal(7);
    expect(clone.countInstalls()).to.equal(2);
  });

  it("bootstrap does not install packages if the existing packages match the lock file", () => {
    const clone = makeClone("");
    clone.write("node_modules/tsx/index.js", "");
    clone.write("node_modules/.package-lock.json", '{"packages":{"node_modules/tsx":{"version":"1.0.0"}}}');
    expect(clone.run().status).to.equal(0);
    expect(clone.countInstalls()).to.equal(0);
  });

  it("two concurrent bootstraps install the packages only once", async () => {
    const clone = makeClone("");
    const exitPromises = [clone.start(), clone.start()].map((child) => once(child, "exit"));
    expect((await Promise.all(exitPromises)).map(([code]) => code)).to.eql([0, 0]);
    expect(clone.countInstalls()).to.equal(1);
  });

  it("bootstrap takes over the lock of an install process that was killed", () => {
    const clone = makeClone("");
    fs.mkdirSync(path.join(clone.folder, ".local"));
    fs.symlinkSync("999999 long-ago:1", path.join(clone.folder, ".local/install.lock"));
    expect(clone.run().status).to.equal(0);
  });

  it("bootstrap prints npm's errors and a one-line message if the installation fails", () => {
    const clone = makeClone("");
    clone.write("npm-fails", "");
    const { status, stderr } = clone.run();
    expect(status).to.equal(1);
    expect(stderr)
      .to.include("npm error: no network")
      .and.match(/npm ci failed with code 1.*\n$/);
  });

  it("bootstrap forwards a signal and waits for the program to end", async () => {
    const clone = makeClone(
      "process.on('SIGTERM', () => process.exit(5)); console.log('up'); setInterval(()=>{}, 1000)",
    );
    const child = clone.start();
    await once(child.stdout, "data");
    child.kill("SIGTERM");
    expect((await once(child, "exit"))[0]).to.equal(5);
  });
});
