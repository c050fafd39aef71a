import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { buildNodeCommand, PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import {
  buildCommandLineEnvironment,
  formatReadyMessage,
  type StackFile,
} from "../../../deploy/local/stack/stack-file.ts";
import { makeTestRoot } from "../../support/stack.ts";

const urls = {
  EVENTSTORE_URL: "esdb://127.0.0.1:8113?tls=false",
  DATABASE_URL: "postgres://local@127.0.0.1:8432/clinic",
  NATS_URL: "nats://127.0.0.1:8422",
};
const keyEnv = {
  AUDIT_SIGNING_KEYS: "audit keys",
  PERSONAL_DATA_KEYS: "master keys",
  WEBHOOK_SECRET_KEYS: "webhook keys",
};
const GATEWAY_URL = "http://127.0.0.1:18080";
const stack = {
  urls: {
    ...{ eventstore: urls.EVENTSTORE_URL, nats: urls.NATS_URL, gateway: GATEWAY_URL },
    postgres: { projection: urls.DATABASE_URL },
  },
  auditSigningKeys: keyEnv.AUDIT_SIGNING_KEYS,
  personalDataKeys: keyEnv.PERSONAL_DATA_KEYS,
  webhookSecretKeys: keyEnv.WEBHOOK_SECRET_KEYS,
};
const PORTAL_USER = { id: "u1", name: "Ada", role: "owner", clinic: "c", clinicId: "c1", email: "e", cookie: "c" };
const otherLogUrl = "esdb://log.example.com:2113";
const otherDatabaseUrl = "postgres://owner@db.example.com/clinic";
const stackEnv = { ...urls, ...keyEnv, TOKEN_ISSUER: GATEWAY_URL };

describe("settings that command-line programs take from the running stack", () => {
  const addStackEnv = (env: NodeJS.ProcessEnv) => ({ ...env, ...buildCommandLineEnvironment(env, stack) });

  it("command-line programs use all servers, APIs and keys of the stack if no environment variable names a server", () => {
    for (const env of [{}, { EVENTSTORE_URL: "", DATABASE_URL: "" }]) expect(addStackEnv(env)).to.deep.equal(stackEnv);
  });

  it("command-line programs use the stack's settings if an environment variable names the stack's log or database", () => {
    const { EVENTSTORE_URL, DATABASE_URL } = urls;
    expect(addStackEnv({ EVENTSTORE_URL })).to.deep.equal(stackEnv);
    expect(addStackEnv({ DATABASE_URL })).to.deep.equal(stackEnv);
  });

  it("command-line programs use none of the stack's settings if an environment variable names another log or database", () => {
    expect(addStackEnv({ EVENTSTORE_URL: otherLogUrl })).to.deep.equal({ EVENTSTORE_URL: otherLogUrl });
    expect(addStackEnv({ DATABASE_URL: otherDatabaseUrl })).to.deep.equal({ DATABASE_URL: otherDatabaseUrl });
    const otherEnv = { EVENTSTORE_URL: otherLogUrl, DATABASE_URL: otherDatabaseUrl };
    expect(addStackEnv(otherEnv)).to.deep.equal(otherEnv);
  });

  it("the stack's settings never override environment variables of a command-line program", () => {
    const env = { ...stackEnv, NATS_URL: "nats://n.example.com:4222", AUDIT_SIGNING_KEYS: "own" };
    expect(addStackEnv(env)).to.deep.equal(env);
  });
});

const services = { projection: "p", command: "c", queryApi: "q", audit: "a" };
const stackFile: StackFile = {
  ...stack,
  urls: {
    ...services,
    ...stack.urls,
    postgres: { projection: urls.DATABASE_URL, command: "c", query: "q", audit: "a" },
  },
  apis: { portal: "p", sandbox: "s", production: "p", audit: "a", operations: "o", reference: "r" },
  demo: { portalUsers: [PORTAL_USER], applications: [], auditor: { credential: "c" }, operator: { credential: "o" } },
};

describe("the message of a ready stack", () => {
  it("the message names external servers without their user and password", () => {
    const externalUrls = {
      ...stackFile.urls,
      eventstore: "esdb://clinic:se@cret@a:2113,b:2113?tls=true",
      nats: "nats://clinic:secret@nats.example:4222",
      postgres: { ...stackFile.urls.postgres, projection: "postgres://clinic:secret@db.example:5432/clinic" },
    };
    const message = formatReadyMessage({ ...stackFile, urls: externalUrls }, "/data", 1_250);
    expect(message).to.contain("\n  event log     esdb://a:2113,b:2113?tls=true\n");
    expect(message).to.contain("\n  Postgres      db.example:5432/clinic\n");
    expect(message).to.contain(`\n  portal user   ${PORTAL_USER.id} (Ada;`);
    expect(message).to.contain("\n  NATS          nats://nats.example:4222\n");
    expect(message).to.contain("\n  logs          /data/logs/*.log\n");
    expect(message).not.to.match(/secret|cret@|clinic:/);
  });
});

describe("command-line.ts", () => {
  const folder = makeTestRoot();
  const entryFile = path.join(folder, "entry.mjs");

  before(() => {
    fs.writeFileSync(path.join(folder, "stack.json"), JSON.stringify(stackFile));
    fs.writeFileSync(
      entryFile,
      "console.log([process.env.EVENTSTORE_URL, ...process.argv.slice(2)].join(' ')); process.exit(+process.argv[2])",
    );
  });

  const run = (root: string, args: string[], settings: NodeJS.ProcessEnv = {}, entry = entryFile) => {
    const { command, args: nodeArgs } = buildNodeCommand("deploy/local/command-line.ts", [entry, ...args]);
    const env = { PATH: process.env.PATH, LOCAL_DIR: root, ...settings };
    return spawnSync(command, nodeArgs, { cwd: PROJECT_FOLDER, env, encoding: "utf8" });
  };

  it("command-line.ts passes the stack's settings and the arguments to a program, and exits with the program's exit code", () => {
    const { status, stdout, stderr } = run(folder, ["3", "--flag"]);
    expect([status, stdout.trim(), stderr]).to.deep.equal([3, `${urls.EVENTSTORE_URL} 3 --flag`, ""]);
  });

  it("without a stack and EVENTSTORE_URL, a command says in one line that no stack is running", () => {
    const missingRoot = path.join(folder, "none");
    const clinic = buildNodeCommand("bin/clinic.ts", []).args.at(-1) as string;
    expect(run(missingRoot, ["0"]).stderr).to.equal("");
    const { status, stderr } = run(missingRoot, ["projection", "status"], {}, clinic);
    expect([status, stderr.trimEnd()]).to.deep.equal([
      2,
      "projection: no local stack is running; start it with npm start, or set EVENTSTORE_URL and DATABASE_URL",
    ]);
  });

  it("if a file provides a URL, command-line.ts does not set the stack's URL", () => {
    const file = path.join(folder, "url");
    fs.writeFileSync(file, "esdb://other.example.com:2113\n");
    const { status, stdout } = run(folder, ["0"], { EVENTSTORE_URL_FILE: file });
    // The program reads the file itself, so the variable stays unset.
    expect([status, stdout.trim()]).to.deep.equal([0, "0"]);
  });
});
