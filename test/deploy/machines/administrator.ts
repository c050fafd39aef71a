/** Simulates the administrator's machine: a checkout of the project with all settings that the guide leaves open. */
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runChecked } from "../process.ts";
import { getAddresses, PUBLIC_NAME } from "./network.ts";

/** Folder with the public certificates on each machine. */
const CERTIFICATES = "/etc/ssl/clinic";

export interface Administrator {
  /** Public ssh key. */
  authorizedKey: string;
  /** Runs a shell script in the checkout. */
  run(script: string): Promise<string>;
}

/**
 * Copies the project and creates an ssh key.
 *
 * @param folder destination of the copy and of the key
 */
export async function createAdministrator(projectFolder: string, folder: string): Promise<Administrator> {
  const [checkout, sshFolder, hostsPath] = [join(folder, "checkout"), join(folder, "ssh"), join(folder, "hosts")];
  mkdirSync(checkout);
  mkdirSync(sshFolder, { mode: 0o700 });
  const list = `git -C ${projectFolder} ls-files -z --cached --others --exclude-standard`;
  const copy = `tar -C ${projectFolder} --create --null --files-from - --ignore-failed-read | tar -C ${checkout} --extract`;
  await runChecked("sh", ["-c", `${list} | ${copy}`]);
  chooseSettings(join(checkout, "deploy/machines"));
  const keyPath = join(sshFolder, "id_ed25519");
  await runChecked("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", keyPath]);
  writeFileSync(join(sshFolder, "config"), "StrictHostKeyChecking accept-new\n");
  const hosts = ["a.example", "b.example", "c.example"].map((host) => `${getAddresses(host)[0]} ${host}\n`);
  writeFileSync(hostsPath, `127.0.0.1 localhost\n${hosts.join("")}`);
  return {
    authorizedKey: readFileSync(`${keyPath}.pub`, "utf8"),
    run: (script) =>
      runChecked(
        // The files of the administrator are visible only to the script.
        "unshare",
        [
          ...["--mount", "bash", "-e", "-o", "pipefail", "-c"],
          `mkdir -p /root/.ssh && mount --bind ${sshFolder} /root/.ssh && mount --bind ${hostsPath} /etc/hosts
cd ${checkout}
${script}`,
        ],
        {
          env: {
            ...process.env,
            PORTAL_JWT_SECRET: randomBytes(32).toString("hex"),
            HOME: "/root",
            npm_config_prefer_offline: "true",
          },
        },
      ),
  };
}

/** Makes the choices that the guide leaves to the reader. Configures certificates of a private authority. */
function chooseSettings(folder: string): void {
  replaceInFile(join(folder, "Caddyfile"), `${PUBLIC_NAME} {\n`, [
    `${PUBLIC_NAME} {\n`,
    `\ttls ${CERTIFICATES}/${PUBLIC_NAME}.crt ${CERTIFICATES}/${PUBLIC_NAME}.key\n`,
  ]);
  // The webhooks role trusts the authority because the partner's receiver has a certificate of the same authority.
  for (const service of ["query-api", "webhooks"])
    replaceInFile(join(folder, `settings/${service}.env`), /$/, [`NODE_EXTRA_CA_CERTS=${CERTIFICATES}/ca.crt\n`]);
}

function replaceInFile(path: string, searched: string | RegExp, lines: string[]): void {
  const text = readFileSync(path, "utf8");
  const replaced = text.replace(searched, lines.join(""));
  if (replaced === text) throw new Error(`${path} does not contain ${searched}`);
  writeFileSync(path, replaced);
}
