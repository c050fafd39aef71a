/**
 * `npm run test:deploy`: runs the product in containers as deploy/container/README.md describes. Prints one line for
 * each check. Needs root, podman, and either Debian or docker-compose. Leaves only cached files in /var/tmp.
 */
import { runEntry } from "../../../deploy/local/setup/setup-error.ts";
import { isInstalled } from "../process.ts";
import { check, skip, summarize } from "../report.ts";
import { buildProductImage, provideImages, readBaseImage } from "./base-images.ts";
import { checkBackup } from "./checks/backup.ts";
import { checkCommands } from "./checks/commands.ts";
import { checkLifecycle } from "./checks/lifecycle.ts";
import { checkLimits } from "./checks/limits.ts";
import { checkNames } from "./checks/names.ts";
import { checkPods } from "./checks/pods.ts";
import { checkTrial } from "./checks/trial.ts";
import { checkUpgrade } from "./checks/upgrade.ts";
import { findCompose } from "./compose.ts";
import { startEngine } from "./engine.ts";
import { install, PRODUCT_IMAGE, readImages } from "./installation.ts";
import { onboard } from "./onboard.ts";

await runEntry(async () => {
  if (!(await isInstalled("podman"))) {
    skip("all promises of compose.yaml and of the Kubernetes manifests", "podman is not installed");
    process.exit(summarize());
  }
  const engine = await startEngine();
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => void engine.close().finally(() => process.exit(130)));
  const compose = await findCompose();
  const images = [readBaseImage(), ...readImages(["grafana"])];
  const standIns = await provideImages(engine, images);
  await check("the image builds", () => buildProductImage(engine, PRODUCT_IMAGE));
  const installation = await install(engine, compose);
  try {
    await check("the installation starts without any health check", async () => {
      const startedAt = Date.now();
      await installation.compose(["up", "--detach"], { timeoutMs: 300_000 });
      await installation.waitUntilReady();
      return `ready after ${Math.round((Date.now() - startedAt) / 1000)} s`;
    });
    const partner = await onboard(installation, "lake-vets");
    await checkNames(installation, partner);
    await checkLimits(engine, installation);
    await checkCommands(engine, installation);
    await checkPods(engine, installation);
    await checkUpgrade(engine, installation, partner);
    await checkLifecycle(engine, installation, partner);
    await checkBackup(engine, installation, partner, compose);
    await checkTrial(installation, partner);
  } finally {
    await engine.close();
  }
  for (const image of standIns) skip(image, "no registry is reachable; a stand-in from Debian packages ran instead");
  skip("docker.io/grafana/grafana", "Debian has no package of Grafana");
  process.exit(summarize());
});
