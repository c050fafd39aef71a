import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseEnv } from "node:util";
import { expect } from "chai";
import { z } from "zod";
import { makeTestRoot } from "../../support/stack.ts";
import {
  type Container,
  findProblems,
  IMAGE_ENV,
  listUsedSecrets,
  readMemoryNeed,
  readYaml,
  STOP_SECONDS,
  toMebibytes,
} from "./containers.ts";

const containerFolder = fileURLToPath(new URL("../../../deploy/container", import.meta.url));

const toNames = (value: string[] | object) => (Array.isArray(value) ? value : Object.keys(value));

const composeSchema = z.object({
  services: z.record(
    z.string(),
    z.looseObject({
      image: z.string(),
      command: z.array(z.string()).optional(),
      environment: z.record(z.string(), z.string()).default({}),
      secrets: z.array(z.union([z.string(), z.object({ source: z.string(), target: z.string() })])).default([]),
      networks: z.union([z.array(z.string()), z.record(z.string(), z.object({}))]).transform(toNames),
      restart: z.string(),
      healthcheck: z.object({ test: z.array(z.string()).optional(), disable: z.boolean().default(false) }).optional(),
      depends_on: z.union([z.array(z.string()), z.record(z.string(), z.object({ condition: z.string() }))]).default([]),
      mem_limit: z.string().optional(),
      logging: z.object({ options: z.object({ "max-size": z.string() }) }),
      stop_grace_period: z.string().optional(),
      volumes: z.array(z.string()).default([]),
    }),
  ),
  configs: z.record(z.string(), z.object({ file: z.string() })),
  secrets: z.record(z.string(), z.object({ file: z.string() })),
  networks: z.record(z.string(), z.object({ internal: z.boolean().default(false) })),
  volumes: z.record(z.string(), z.object({})),
});

const prometheusSchema = z.looseObject({
  scrape_configs: z.array(
    z.object({ job_name: z.string(), static_configs: z.array(z.object({ targets: z.array(z.string()) })) }),
  ),
});

describe("compose.yaml", () => {
  const compose = composeSchema.parse(readYaml("container/compose.yaml")[0]);
  const exampleEnv = parseEnv(readFileSync(join(containerFolder, "example.env"), "utf8"));
  const productServices = Object.entries(compose.services).filter(([, { image }]) => image.includes("CLINIC_IMAGE"));
  let secretsFolder: string;

  before(() => {
    secretsFolder = join(makeTestRoot(), "secrets/");
    execFileSync(join(containerFolder, "create-secrets.sh"), [secretsFolder]);
    writeFileSync(join(secretsFolder, "portal-jwt-secret"), "s".repeat(40));
  });

  const interpolate = (text: string) =>
    text.replace(/\$\{(\w+)(?::-([^}]*))?\}/g, (_, name, fallback = "") => exampleEnv[name] ?? fallback);

  for (const [name, { command = [], environment }] of productServices) {
    // The resolver does not run a program of the product, and reads no settings.
    if (name !== "resolver")
      it(`${name} gets all settings that it requires, with valid values, and no unknown variable`, async () => {
        const env = Object.fromEntries(Object.entries(environment).map(([key, value]) => [key, interpolate(value)]));
        // A shell runs the command line in a loop.
        const container: Container = { command: command[0] === "sh" ? ["clinic"] : command, env };
        expect(await findProblems(container, secretsFolder)).to.deep.equal([]);
      });

    it(`${name} gets exactly the secrets that its settings name`, () => {
      const { secrets } = compose.services[name]!;
      expect(secrets).to.have.members(listUsedSecrets(environment, secretsFolder));
    });

    it(`${name} runs without privileges on a read-only file system`, () => {
      expect(compose.services[name]).to.deep.include({
        read_only: true,
        cap_drop: ["ALL"],
        security_opt: ["no-new-privileges:true"],
      });
    });

    it(`${name} has no volume that it can write to, except a temporary one of the command lines`, () => {
      const mounts = compose.services[name]!.volumes;
      expect(mounts).to.deep.equal(name === "clinic" ? ["temporary:/tmp"] : []);
    });
  }

  it("every container has a memory limit, a limited log and time to stop", () => {
    for (const [name, service] of Object.entries(compose.services)) {
      expect(toMebibytes(service.mem_limit ?? ""), name).to.be.above(0);
      expect(service.logging.options["max-size"], name).to.match(/^\d+m$/);
      expect(Number.parseInt(service.stop_grace_period ?? "", 10), name).to.be.above(STOP_SECONDS);
      expect(service.restart, name).to.equal(["migrate", "restore"].includes(name) ? "no" : "always");
    }
  });

  it("no container waits for a health check, because an engine may run none", () => {
    expect(JSON.stringify(compose.services)).to.not.contain("service_healthy");
  });

  it("every server and service has a health check", () => {
    for (const [name, { healthcheck }] of Object.entries(compose.services)) {
      if (["migrate", "resolver", "clinic", "backup", "restore", "grafana"].includes(name)) continue;
      expect(healthcheck?.test, name).to.be.an("array");
    }
  });

  it("every service has the documented memory", () => {
    for (const [name, { mem_limit = "" }] of productServices) {
      if (name === "migrate" || name === "resolver") continue;
      const need = readMemoryNeed(name === "clinic" ? "clinic projection rebuild" : name);
      expect(toMebibytes(mem_limit), name).to.be.above(need);
    }
  });

  it("create-secrets.sh creates every secret except the portal's, and changes none", () => {
    const files = Object.values(compose.secrets).map(({ file }) => file.replace("secrets/", secretsFolder));
    const contents = files.map((file) => readFileSync(file, "utf8"));
    expect(contents).to.not.include("");
    expect(checkSecrets()).to.deep.equal({ status: 0, missing: [] });
    expect(files.map((file) => readFileSync(file, "utf8"))).to.deep.equal(contents);
  });

  it("create-secrets.sh names each missing file, and each folder in place of a file, with its source", () => {
    const names = [...Object.values(compose.secrets).map(({ file }) => file), "eventstore.env", "nats.env"];
    for (const name of names.map((file) => file.replace("secrets/", ""))) {
      const [file, otherPlace] = [join(secretsFolder, name), join(makeTestRoot(), name)];
      renameSync(file, otherPlace);
      expect(checkSecrets(), name).to.deep.equal({ status: 1, missing: [name] });
      mkdirSync(file);
      expect(checkSecrets(), name).to.deep.equal({ status: 1, missing: [name] });
      rmdirSync(file);
      renameSync(otherPlace, file);
    }
  });

  function checkSecrets(): { status: number | null; missing: string[] } {
    const { status, stderr } = spawnSync(join(containerFolder, "create-secrets.sh"), [secretsFolder], {
      encoding: "utf8",
    });
    const lines = [...stderr.matchAll(/([^/]+) is missing or empty\. Source: .+\.\n/g)];
    return { status, missing: lines.map(([, name = ""]) => name) };
  }

  it("all configuration files exist", () => {
    for (const { file } of Object.values(compose.configs))
      expect(existsSync(join(containerFolder, file)), file).to.equal(true);
  });

  it("Prometheus scrapes all services, and is in a network with each of them", () => {
    const jobs = prometheusSchema.parse(readYaml("container/prometheus.yaml")[0]).scrape_configs;
    const targets = jobs.flatMap(({ static_configs }) => static_configs.flatMap(({ targets }) => targets));
    const services = productServices.filter(([, { command = [] }]) => command[1]?.startsWith("dist/"));
    expect(targets).to.have.members(services.map(([name]) => `${name}:${IMAGE_ENV.PORT}`));
    for (const [, { networks }] of services)
      expect(networks).to.include.oneOf(compose.services.prometheus?.networks ?? []);
  });

  it("only the dispatcher, the resolver, the ingress and Grafana are in a network that reaches the internet", () => {
    const connectedServices = Object.entries(compose.services).filter(([, { networks }]) =>
      networks.some((network) => compose.networks[network]?.internal !== true),
    );
    expect(connectedServices.map(([name]) => name)).to.have.members(["webhooks", "resolver", "ingress", "grafana"]);
  });
});
