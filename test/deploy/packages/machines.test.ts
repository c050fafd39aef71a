import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseEnv } from "node:util";
import { expect } from "chai";
import { parseConnectionString } from "../../../shared/postgres/connection-string.ts";
import { makeTestRoot } from "../../support/stack.ts";
import { readSteps } from "../machines/guide.ts";
import {
  type Container,
  findProblems,
  readMemoryNeed,
  SECRETS_FOLDER,
  STOP_SECONDS,
  toMebibytes,
} from "./containers.ts";

const deployFolder = fileURLToPath(new URL("../../../deploy", import.meta.url));
const createSecrets = join(deployFolder, "container/create-secrets.sh");

/** Folder of the settings and secrets on a machine. */
const MACHINE_FOLDER = "/etc/clinic/";

const HOSTS = ["a.example", "b.example", "c.example"];

const readSettings = (name: string): NodeJS.Dict<string> =>
  parseEnv(readFileSync(join(deployFolder, "machines/settings", `${name}.env`), "utf8"));

describe("the settings for machines", () => {
  let secretsFolder: string;

  before(() => {
    secretsFolder = join(makeTestRoot(), "secrets/");
    execFileSync(createSecrets, [secretsFolder, ...HOSTS]);
    writeFileSync(join(secretsFolder, "portal-jwt-secret"), "s".repeat(40));
  });

  const readSecret = (name: string) => readFileSync(join(secretsFolder, name), "utf8").trim();

  for (const name of ["command", "query-api", "projection", "webhooks", "audit", "clinic"])
    it(`${name} gets all settings that it requires, with valid values, and no unknown variable`, async () => {
      const { ENTRY, ...settings } = readSettings(name);
      const env = name === "clinic" ? settings : { HOST: "a.example", ...settings };
      const container: Container = {
        command: ENTRY === undefined ? ["clinic"] : ["node", ENTRY],
        env: Object.fromEntries(
          Object.entries(env).map(([key, value = ""]) => [key, value.replace(MACHINE_FOLDER, SECRETS_FOLDER)]),
        ),
      };
      expect(await findProblems(container, secretsFolder)).to.deep.equal([]);
    });

  it("the guide says for every block of commands on which machine it runs", () => {
    const guide = readFileSync(join(deployFolder, "machines/README.md"), "utf8");
    expect(readSteps(guide)).to.have.length(guide.match(/^```sh$/gm)?.length ?? 0);
  });

  for (const name of readdirSync(join(deployFolder, "machines/units")).filter((file) => file.endsWith(".service")))
    it(`systemd rates ${name} as well protected, also against the other services`, function () {
      const unitText = readFileSync(join(deployFolder, "machines/units", name), "utf8");
      // Only Postgres has the user of its package.
      expect(unitText).to.match(
        name === "clinic-postgres.service" ? /^User=postgres$/m : /^User=clinic-(%i|projection)$/m,
      );
      const file = join(makeTestRoot(), name.replace("@", "@command"));
      writeFileSync(file, unitText);
      const args = ["security", "--offline=yes", "--no-pager", "--threshold=20", file];
      const { error, status, stdout, stderr } = spawnSync("systemd-analyze", args, { encoding: "utf8" });
      if (error || /unrecognized option|Unknown/.test(stderr)) return this.skip();
      expect(status, stdout + stderr).to.equal(0);
    });

  it("only projectors, command and audit can read the keys of personal data", () => {
    const names = ["command", "query-api", "projection", "webhooks", "audit"];
    const readers = names.filter((name) =>
      Object.values(readSettings(name)).includes("/etc/clinic/personal-data-keys"),
    );
    expect(readers).to.deep.equal(["command", "projection", "audit"]);
  });

  it("the processes of a machine listen on different ports", () => {
    const ports = ["command", "query-api", "projection", "webhooks", "audit"].map((name) => readSettings(name).PORT);
    expect(new Set(ports).size).to.equal(ports.length);
  });

  it("every service has the documented memory and time to stop", () => {
    const unit = readFileSync(join(deployFolder, "machines/units/clinic@.service"), "utf8");
    const readLimit = (name: string) => new RegExp(`^${name}=(.*)$`, "m").exec(unit)?.[1] ?? "";
    for (const name of ["command", "query-api", "projection", "webhooks", "audit"])
      expect(toMebibytes(readLimit("MemoryMax")), name).to.be.above(readMemoryNeed(name));
    expect(Number(readLimit("TimeoutStopSec"))).to.be.above(STOP_SECONDS);
  });

  it("create-secrets.sh writes connection strings that name all hosts and the authority on the machines", () => {
    const { hosts } = parseConnectionString(readSecret("database-url-command"));
    expect(hosts).to.deep.equal(["a.example:5432", "b.example:5432", "c.example:5432"]);
    expect(readSecret("database-url-command")).to.contain("target_session_attrs=read-write&sslmode=verify-full");
    expect(readSecret("eventstore-url")).to.match(
      /^esdb:\/\/clinic:\w+@a\.example:2113,b\.example:2113,c\.example:2113\?tlsCAFile=\/etc\/clinic\/ca\.crt$/,
    );
    expect(readSecret("nats-url")).to.match(
      /^tls:\/\/clinic:\w+@a\.example:4222,tls:\/\/clinic:\w+@b\.example:4222,tls:\/\/clinic:\w+@c\.example:4222$/,
    );
    const password = /clinic:(\w+)@/.exec(readSecret("eventstore-url"))?.[1];
    expect(JSON.parse(readSecret("eventstore-user.json"))).to.include({ loginName: "clinic", password });
  });

  it("create-secrets.sh gives all hosts certificates with the same common name, readable only by their owner", () => {
    for (const host of HOSTS) {
      const certificatePath = join(secretsFolder, `${host}.crt`);
      execFileSync("openssl", ["verify", "-CAfile", join(secretsFolder, "ca.crt"), certificatePath]);
      const args = ["x509", "-in", certificatePath, "-noout", "-subject", "-checkhost", host];
      const text = execFileSync("openssl", args, { encoding: "utf8" });
      expect(text)
        .to.match(/CN ?= ?clinic-node/)
        .and.match(/does match certificate/);
    }
    const modes = execFileSync("find", [secretsFolder, "-type", "f", "-perm", "/077"], { encoding: "utf8" });
    expect(modes.replace(join(secretsFolder, "portal-jwt-secret"), "").trim()).to.equal("");
  });
});
