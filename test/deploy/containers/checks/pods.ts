import { chmodSync, chownSync, cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { parseEnv } from "node:util";
import { expect } from "chai";
import { dump } from "js-yaml";
import { z } from "zod";
import { eventually } from "../../../support/eventually.ts";
import { readYaml } from "../../packages/containers.ts";
import { check, skip } from "../../report.ts";
import { readBaseImage } from "../base-images.ts";
import { type Engine, PAUSE_IMAGE } from "../engine.ts";
import { type Installation, PRODUCT_IMAGE } from "../installation.ts";

const podSpec = z.looseObject({
  containers: z.tuple([z.looseObject({ name: z.string(), image: z.string() })]),
  volumes: z
    .tuple([
      z.object({
        name: z.string(),
        secret: z.object({ secretName: z.string(), items: z.array(z.object({ key: z.string(), path: z.string() })) }),
      }),
    ])
    .rest(z.object({ name: z.string(), persistentVolumeClaim: z.object({ claimName: z.string() }) })),
  securityContext: z.object({ runAsGroup: z.number() }),
});
const template = z.object({ metadata: z.object({ labels: z.record(z.string(), z.string()) }), spec: podSpec });
const volumeClaimTemplates = z.array(z.object({ metadata: z.object({ name: z.string() }) })).default([]);
const workload = z.object({
  metadata: z.object({ name: z.string() }),
  spec: z.object({ template, volumeClaimTemplates }),
});
const cronJob = z.object({
  metadata: z.object({ name: z.string() }),
  spec: z.object({ jobTemplate: z.object({ spec: z.object({ template }) }) }),
});

/** Manifests of long-running pods, with the equivalent compose service. */
const SERVICE_MANIFESTS = ["projection", "webhooks", "command", "query-api", "audit"].map(
  (service) => [`kubernetes/services/${service}.yaml`, service] as const,
);

/** Manifests of pods that run to completion, with the index of the document in the file. */
const JOB_MANIFESTS = [
  ["kubernetes/migrate/job.yaml", 0],
  ["kubernetes/rebuild/job.yaml", 0],
  ["kubernetes/services/retention.yaml", 0],
  ["kubernetes/backup/backup.yaml", 1],
  ["kubernetes/backup/backup.yaml", 2],
] as const;

/**
 * Runs the pod of each Kubernetes manifest with the servers of the installation. The secrets are mounted from a folder
 * with the keys that the pod lists, because podman 4.3 cannot mount single keys of a Kubernetes secret.
 */
export async function checkPods({ podman }: Engine, installation: Installation): Promise<void> {
  await podman(["build", "--quiet", "--tag", PAUSE_IMAGE, "-"], {
    input: `FROM ${readBaseImage()}\nCMD ["sleep", "infinity"]\n`,
  });
  const networks = (await podman(["network", "ls", "--format", "{{.Name}}"])).split("\n");
  const play = async (manifest: string, index = 0) => {
    const { name, file, container } = writePod(installation, readYaml(manifest)[index]);
    const joined = networks.filter((network) => /^clinic_(servers|http)$/.test(network));
    await podman(["kube", "play", ...joined.flatMap((network) => ["--network", network]), file]);
    return { container, remove: () => podman(["pod", "rm", "--force", name]) };
  };

  for (const [manifest, service] of SERVICE_MANIFESTS)
    await check(`the pod in ${manifest} becomes ready and stops by itself`, async () => {
      await installation.compose(["stop", service]);
      const { container, remove } = await play(manifest);
      try {
        const script =
          "fetch('http://127.0.0.1:8080/health/ready').then(r=>process.exit(r.ok?0:1),()=>process.exit(1))";
        const isReady = () =>
          podman(["exec", container, "node", "-e", script]).then(
            () => true,
            () => false,
          );
        await eventually("the pod is ready", isReady, 300_000).catch(async (error: Error) => {
          throw new Error(`${error.message}: ${(await podman(["logs", "--tail", "2", container])).slice(-400)}`);
        });
        await podman(["stop", container]);
        expect(await podman(["inspect", "--format", "{{.State.ExitCode}}", container])).to.equal("0");
      } finally {
        await remove();
        await installation.compose(["start", service]);
      }
    });

  for (const [manifest, index] of JOB_MANIFESTS)
    await check(`the pod ${index} in ${manifest} completes`, async () => {
      const { container, remove } = await play(manifest, index);
      try {
        expect(await podman(["wait", container])).to.equal("0");
      } finally {
        await remove();
      }
    });
  skip("Deployments, Jobs, Services, Gateway, autoscaling and network policies", "this test has no Kubernetes cluster");
}

/** Writes the pod of a workload in the form that podman accepts. */
function writePod({ folder }: Installation, document: unknown): { name: string; file: string; container: string } {
  const { metadata, spec } = workload.or(cronJob).parse(document);
  const pod = "template" in spec ? spec.template : spec.jobTemplate.spec.template;
  const name = `clinic-pod-${metadata.name}`;
  const [volume, ...claimVolumes] = pod.spec.volumes;
  const secretsFolder = path.join(folder, "pods", metadata.name);
  mkdirSync(secretsFolder, { recursive: true });
  for (const { key, path: target } of volume.secret.items)
    cpSync(
      path.join(folder, "secrets", toComposeSecret(volume.secret.secretName, key)),
      path.join(secretsFolder, target),
    );
  const toHostFolder = (volumeName: string, folderName: string) => {
    const volumeFolder = path.join(folder, "pods", folderName);
    mkdirSync(volumeFolder, { recursive: true });
    // A cluster sets the group of a volume to `fsGroup`.
    chownSync(volumeFolder, 0, pod.spec.securityContext.runAsGroup);
    chmodSync(volumeFolder, 0o2775);
    return { name: volumeName, hostPath: { path: volumeFolder, type: "Directory" } };
  };
  const claims = "volumeClaimTemplates" in spec ? spec.volumeClaimTemplates : [];
  const claimedVolumes = [
    ...claims.map((claim) => toHostFolder(claim.metadata.name, `${metadata.name}-${claim.metadata.name}`)),
    ...claimVolumes.map((claim) => toHostFolder(claim.name, claim.persistentVolumeClaim.claimName)),
  ];
  const [container] = pod.spec.containers;
  const image = container.image === "clinic-service" ? PRODUCT_IMAGE : container.image;
  const podDocument = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, labels: pod.metadata.labels },
    spec: {
      ...pod.spec,
      containers: [{ ...container, image, imagePullPolicy: "Never" }],
      volumes: [{ name: volume.name, hostPath: { path: secretsFolder, type: "Directory" } }, ...claimedVolumes],
    },
  };
  const data = parseEnv(readFileSync(path.join(folder, "../kubernetes/settings.env"), "utf8"));
  const settings = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "clinic-settings" }, data };
  const file = path.join(folder, "pods", `${metadata.name}.yaml`);
  writeFileSync(file, [settings, podDocument].map((part) => dump(part)).join("---\n"));
  return { name, file, container: `${name}-${container.name}` };
}

/** Returns the compose secret with the content of a key. `database-url` differs for each Kubernetes secret. */
function toComposeSecret(secretName: string, key: string): string {
  return key === "database-url"
    ? `database-url-${secretName.replace("clinic-", "").replace("query-api", "query")}`
    : key;
}
