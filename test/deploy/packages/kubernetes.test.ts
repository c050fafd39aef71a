import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseEnv } from "node:util";
import { expect } from "chai";
import { z } from "zod";
import { DEFAULT_RESPONSE_TIMEOUT_MS } from "../../../command/app.ts";
import { createMetrics } from "../../../projection/status/metrics.ts";
import { KEEP_ALIVE_TIMEOUT_MS } from "../../../shared/http/listen.ts";
import { makeTestRoot } from "../../support/stack.ts";
import { findProblems, listUsedSecrets, readMemoryNeed, readYaml, STOP_SECONDS, toMebibytes } from "./containers.ts";

const kubernetesFolder = fileURLToPath(new URL("../../../deploy/kubernetes", import.meta.url));

const SIGNING_KEYS = '{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "d": "d", "x": "x"}]}';

const ENCRYPTION_KEYS = `{"current": "k", "keys": {"k": "${Buffer.alloc(32).toString("base64")}"}}`;

/** Values of the secrets, by file name. */
const SECRETS = {
  "database-url": "postgres://user:password@postgres/clinic?sslmode=verify-full&sslrootcert=/run/secrets/ca.crt",
  "eventstore-url": "esdb://user:password@eventstore:2113?tlsCAFile=/run/secrets/ca.crt",
  "nats-url": "tls://user:password@nats:4222",
  "portal-jwt-secret": "s".repeat(40),
  "token-signing-keys": SIGNING_KEYS,
  "audit-signing-keys": SIGNING_KEYS,
  "personal-data-keys": ENCRYPTION_KEYS,
  "webhook-secret-keys": ENCRYPTION_KEYS,
};

const variableSchema = z.object({
  name: z.string(),
  value: z.string().optional(),
  valueFrom: z.object({ configMapKeyRef: z.object({ key: z.string() }) }).optional(),
});
const containerSchema = z.looseObject({
  name: z.string(),
  image: z.string(),
  command: z.array(z.string()),
  env: z.array(variableSchema).default([]),
  volumeMounts: z.array(z.object({ name: z.string(), mountPath: z.string(), readOnly: z.boolean().default(false) })),
  resources: z.object({ limits: z.object({ memory: z.string() }) }),
});
const itemsSchema = z.array(z.object({ key: z.string(), path: z.string() }));
const secretSchema = z.object({ secret: z.object({ items: itemsSchema }) });
/** Volumes in a pod: secrets with their keys, and other volumes by name. */
const volumeSchema = z.union([
  secretSchema.transform(({ secret }) => ({ name: undefined, items: secret.items })),
  z.object({ projected: z.object({ sources: z.array(secretSchema) }) }).transform(({ projected }) => ({
    name: undefined,
    items: projected.sources.flatMap(({ secret }) => secret.items),
  })),
  z.object({ name: z.string() }).transform(({ name }) => ({ name, items: [] })),
]);
const podSchema = z.object({
  template: z.object({
    spec: z.looseObject({
      containers: z.tuple([containerSchema]),
      volumes: z.array(volumeSchema),
      terminationGracePeriodSeconds: z.number().optional(),
    }),
  }),
});
const routeSchema = z.object({
  spec: z.object({
    rules: z.array(
      z.object({ timeouts: z.object({ request: z.string() }), backendRefs: z.tuple([z.object({ name: z.string() })]) }),
    ),
  }),
});
const metadata = z.object({ name: z.string() });
const workloadSchema = z.union([
  z.object({ kind: z.enum(["Deployment", "Job"]), metadata, spec: podSchema }),
  z
    .object({ kind: z.literal("CronJob"), metadata, spec: z.object({ jobTemplate: z.object({ spec: podSchema }) }) })
    .transform(({ spec, ...job }) => ({ ...job, spec: spec.jobTemplate.spec })),
]);
const namedSchema = z.looseObject({ kind: z.string(), metadata: z.object({ name: z.string() }) });
const labeledSchema = z.looseObject({
  metadata: z.object({ name: z.string(), labels: z.record(z.string(), z.string()) }),
});
const idleTimeoutSchema = z.object({
  spec: z.looseObject({ timeout: z.object({ http: z.object({ connectionIdleTimeout: z.string() }) }) }),
});
const externalMetricSchema = z.object({
  external: z.object({
    metric: z.object({ name: z.string(), selector: z.object({ matchLabels: z.record(z.string(), z.string()) }) }),
  }),
});
const autoscalerSchema = z.object({ spec: z.object({ metrics: z.array(z.looseObject({ type: z.string() })) }) });
const policySchema = z.object({
  spec: z.object({
    podSelector: z.unknown(),
    egress: z
      .array(
        z.object({ to: z.array(z.looseObject({ ipBlock: z.object({ cidr: z.string() }).optional() })).optional() }),
      )
      .default([]),
  }),
});

describe("the Kubernetes manifests", () => {
  const files = readdirSync(kubernetesFolder, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".yaml"),
  );
  const readObjects = (name: string) => readYaml(join("kubernetes", name));
  const workloads = files
    .filter((name) => /^(services|migrate|rebuild|command-line|backup)\/(?!kustomization)/.test(name))
    .flatMap(readObjects)
    .filter((document) => !["Service", "PersistentVolumeClaim"].includes(namedSchema.parse(document).kind))
    .map((document) => workloadSchema.parse(document));
  const settings = parseEnv(readFileSync(join(kubernetesFolder, "settings.env"), "utf8"));
  let secretsFolder: string;

  before(() => {
    secretsFolder = `${makeTestRoot()}/`;
    for (const [name, value] of Object.entries(SECRETS)) writeFileSync(join(secretsFolder, name), value);
  });

  for (const { metadata, spec } of workloads) {
    const { containers, volumes } = spec.template.spec;
    const [{ image, command, env: variables }] = containers;
    const env = Object.fromEntries(
      variables.map(({ name, value, valueFrom }) => [
        name,
        value ?? settings[valueFrom?.configMapKeyRef.key ?? ""] ?? "",
      ]),
    );
    // The backups run programs of Postgres, and read no settings.
    const isProduct = image === "clinic-service";
    if (isProduct)
      it(`${metadata.name} gets all settings that it requires, with valid values, and no unknown variable`, async () => {
        // The pod for the command lines waits for them.
        const program = command[0] === "sleep" ? ["clinic"] : command;
        expect(await findProblems({ command: program, env }, secretsFolder)).to.deep.equal([]);
      });

    it(`${metadata.name} gets exactly the secrets that its settings name`, () => {
      const items = volumes.flatMap(({ items }) => items);
      const usedSecrets = listUsedSecrets(
        isProduct ? env : { DATABASE_URL_FILE: "/run/secrets/database-url" },
        secretsFolder,
      );
      expect(items.map(({ path }) => path)).to.have.members(usedSecrets);
      for (const { key, path } of items) expect(key).to.equal(path);
    });

    it(`${metadata.name} runs without privileges on a read-only file system`, () => {
      const { containers, securityContext } = spec.template.spec;
      expect(securityContext).to.deep.include({ runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } });
      expect(containers[0].securityContext).to.deep.equal({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
    });

    it(`${metadata.name} can write only to the volumes of command lines and backups`, () => {
      const mounts = spec.template.spec.containers[0].volumeMounts.filter(({ readOnly }) => !readOnly);
      const folders = { "command-line": ["/tmp"], backup: ["/backups"] }[spec.template.spec.containers[0].name] ?? [];
      expect(mounts.map(({ mountPath }) => mountPath)).to.have.members(folders);
      expect(mounts.map(({ name }) => name)).to.have.members(volumes.flatMap(({ name }) => name ?? []));
    });
  }

  it("each object of a service has its label, so that an upgrade can apply one service after another", () => {
    for (const file of files.filter((name) => /^services\/(?!retention)/.test(name)))
      for (const document of readObjects(file)) {
        const { metadata } = labeledSchema.parse(document);
        expect(metadata.labels["app.kubernetes.io/name"], file).to.equal(metadata.name);
      }
  });

  it("Envoy closes idle connections before the services do", () => {
    const policy = idleTimeoutSchema.parse(readObjects("gateway.yaml")[2]);
    const seconds = Number(/^(\d+)s$/.exec(policy.spec.timeout.http.connectionIdleTimeout)?.[1]);
    expect(seconds * 1_000)
      .to.be.above(0)
      .and.below(KEEP_ALIVE_TIMEOUT_MS);
  });

  it("the kustomizations list all files", () => {
    const jobFolders = ["migrate", "rebuild", "command-line", "backup"];
    for (const folder of ["", ...jobFolders]) {
      const [kustomization] = readObjects(join(folder, "kustomization.yaml"));
      const { resources } = z.object({ resources: z.array(z.string()) }).parse(kustomization);
      const expectedFiles = files
        .filter(
          (name) =>
            !name.endsWith("kustomization.yaml") &&
            (folder === "" ? ![...jobFolders, "optional"].includes(dirname(name)) : dirname(name) === folder),
        )
        .map((name) => relative(folder, name));
      expect(resources).to.have.members(expectedFiles);
    }
  });

  it("every service has probes and a disruption budget", () => {
    const budgets = readObjects("disruption-budgets.yaml").map((budget) => namedSchema.parse(budget).metadata.name);
    const services = workloads.filter(({ kind }) => kind === "Deployment");
    expect(budgets).to.have.members(services.map(({ metadata }) => metadata.name));
    for (const { spec } of services)
      expect(spec.template.spec.containers[0]).to.include.keys("readinessProbe", "livenessProbe", "resources");
  });

  it("every pod has the documented memory and time to stop", () => {
    const programs: Record<string, string> = {
      rebuild: "clinic projection rebuild",
      retention: "clinic retention apply",
      "command-line": "clinic projection rebuild",
    };
    for (const { metadata, spec } of workloads) {
      if (metadata.name === "migrate" || metadata.name.startsWith("backup")) continue;
      const { containers, terminationGracePeriodSeconds = 30 } = spec.template.spec;
      const need = readMemoryNeed(programs[metadata.name] ?? metadata.name);
      expect(toMebibytes(containers[0].resources.limits.memory), metadata.name).to.be.above(need);
      expect(terminationGracePeriodSeconds, metadata.name).to.be.above(STOP_SECONDS);
    }
  });

  it("the gateway waits longer than the services, and does not limit the time of an export", () => {
    for (const { timeouts, backendRefs } of routeSchema.parse(readObjects("gateway.yaml")[1]).spec.rules) {
      const [{ name }] = backendRefs;
      const seconds = Number(/^(\d+)s$/.exec(timeouts.request)?.[1]);
      if (name === "audit") expect(seconds, name).to.equal(0);
      else expect(seconds * 1_000, name).to.be.above(DEFAULT_RESPONSE_TIMEOUT_MS);
    }
  });

  it("autoscaling uses metrics and labels that the projection service exports", async () => {
    const metrics = readObjects("autoscaling.yaml").flatMap((scaler) => autoscalerSchema.parse(scaler).spec.metrics);
    const externalMetrics = metrics.filter(({ type }) => type === "External");
    const { registry, deliveries } = createMetrics();
    deliveries.set({ state: "due" }, 1);
    const exportedText = await registry.metrics();
    for (const metric of externalMetrics) {
      const { name, selector } = externalMetricSchema.parse(metric).external.metric;
      const labelTexts = Object.entries(selector.matchLabels).map(([label, value]) => `${label}="${value}"`);
      expect(exportedText).to.contain(`${name}{${labelTexts.join(",")}} 1`);
    }
    expect(externalMetrics).to.have.length(1);
  });

  it("network policies deny all traffic by default, and let only the dispatcher reach the internet", () => {
    const policies = readObjects("network-policies.yaml");
    expect(namedSchema.parse(policies[0])).to.deep.include({
      spec: { podSelector: {}, policyTypes: ["Ingress", "Egress"] },
    });
    const openPolicies = policies
      .map((policy) => policySchema.parse(policy).spec)
      .filter(({ egress }) =>
        egress.some(
          // The address of NodeLocal DNSCache is in each node.
          ({ to }) => to === undefined || to.some(({ ipBlock }) => ipBlock && ipBlock.cidr !== "169.254.20.10/32"),
        ),
      );
    expect(openPolicies.map(({ podSelector }) => podSelector)).to.deep.equal([
      { matchLabels: { "app.kubernetes.io/name": "webhooks" } },
    ]);
  });
});
