import { execFile, spawnSync } from "node:child_process";
import { promisify } from "node:util";
import { SetupError } from "./setup-error.ts";

const run = promisify(execFile);

/** The system user that Postgres runs as when the stack is started by root; made on first use, never removed. */
const NAME = "clinic-postgres";

export interface SystemUser {
  uid: number;
  gid: number;
}

/**
 * Postgres refuses to run as root. For root, this is the unprivileged system user that it runs as instead; for
 * anybody else undefined: Postgres runs as that person.
 *
 * @throws {SetupError} when the user cannot be made
 */
export async function postgresUser(): Promise<SystemUser | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const existing = await lookUp();
  if (existing) return existing;
  const options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"];
  const failure = await run("useradd", [...options, "--shell", "/usr/sbin/nologin", NAME]).then(
    () => "the new user is not to be found",
    (error) => String(error.stderr || error.message).trim(),
  );
  // Two starts may make it at once: what counts is that it is there.
  const made = await lookUp();
  if (made) return made;
  throw new SetupError(
    `Postgres does not run as root, and the system user ${NAME} could not be made (${failure}): start as an ordinary user, or make that user, or set DATABASE_URL`,
  );
}

/** Whether the user can enter the folder and everything above it. */
export function canEnter(user: SystemUser, folder: string): boolean {
  return (
    spawnSync("/bin/sh", ["-c", 'cd -- "$0"', folder], { ...user, cwd: "/", stdio: "ignore" }).status === 0
  );
}

/** Whether the user can run the program, its libraries included; the program must know `--version`. */
export function canRun(user: SystemUser, program: string): boolean {
  return spawnSync(program, ["--version"], { ...user, cwd: "/", stdio: "ignore" }).status === 0;
}

async function lookUp(): Promise<SystemUser | undefined> {
  try {
    const [uid, gid] = await Promise.all(["-u", "-g"].map((flag) => run("id", [flag, NAME])));
    return uid && gid ? { uid: Number(uid.stdout), gid: Number(gid.stdout) } : undefined;
  } catch {
    return undefined; // id ends with 1 when there is no such user
  }
}
