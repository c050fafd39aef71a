import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { isInstalled, runChecked } from "../process.ts";
import { CACHE_FOLDER } from "./engine.ts";

/** Returns docker-compose from the PATH. Otherwise, downloads it from Debian unstable without installing it. */
export async function findCompose(): Promise<string> {
  if (await isInstalled("docker-compose")) return "docker-compose";
  const program = path.join(CACHE_FOLDER, "docker-compose");
  if (!existsSync(program)) await downloadCompose(program);
  return program;
}

async function downloadCompose(program: string): Promise<void> {
  const folder = mkdtempSync(path.join(CACHE_FOLDER, "apt-"));
  mkdirSync(`${folder}/lists/partial`, { recursive: true });
  const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
  writeFileSync(`${folder}/sid.list`, `deb [signed-by=${keyring}] http://deb.debian.org/debian sid main\n`);
  const options = [
    `Dir::Etc::sourcelist=${folder}/sid.list`,
    "Dir::Etc::sourceparts=-",
    `Dir::State::lists=${folder}/lists`,
    "Acquire::Check-Valid-Until=false",
  ].flatMap((option) => ["--option", option]);
  await runChecked("apt-get", [...options, "update"]);
  await runChecked("apt-get", [...options, "download", "docker-compose"], { cwd: folder });
  const archive = readdirSync(folder).find((name) => name.endsWith(".deb")) ?? "";
  await runChecked("dpkg-deb", ["--extract", archive, "files"], { cwd: folder });
  const file = (
    await runChecked("find", ["files", "-type", "f", "-name", "docker-compose", "-perm", "-u+x"], { cwd: folder })
  ).split("\n")[0]!;
  copyFileSync(path.join(folder, file), program);
  chmodSync(program, 0o755);
  rmSync(folder, { recursive: true });
}
