import { execFile, spawnSync } from "node:child_process";
import { promisify } from "node:util";
import { SetupError } from "./setup-error.ts";

const execFileAsync = promisify(execFile);

/** System user that runs Postgres if root starts the stack. The stack creates this user and never removes it. */
const POSTGRES_USER_NAME = "clinic-postgres";

export interface SystemUser {
  uid: number;
  gid: number;
}

/**
 * Returns the unprivileged system user that runs Postgres if root starts the stack, because Postgres refuses to run as
 * root. Creates the system user if it does not exist. If the current user is not root, returns undefined: Postgres then
 * runs as the current user.
 *
 * @throws {SetupError} if the user cannot be created
 */
export async function ensurePostgresUser(): Promise<SystemUser | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const existingUser = await findPostgresUser();
  if (existingUser) return existingUser;
  const options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"];
  const failure = await execFileAsync("useradd", [...options, "--shell", "/usr/sbin/nologin", POSTGRES_USER_NAME]).then(
    () => "the new user does not exist after useradd",
    (error) => String(error.stderr || error.message).trim(),
  );
  // If another process created the user at the same time, useradd failed, but the user exists.
  const createdUser = await findPostgresUser();
  if (createdUser) return createdUser;
  throw new SetupError(
    `Postgres does not run as root, and the system user ${POSTGRES_USER_NAME} could not be created (${failure}). Start as an ordinary user, create the user ${POSTGRES_USER_NAME}, or set DATABASE_URL.`,
  );
}

/** Returns true if the user can enter the folder and all folders above it. */
export function canEnter(user: SystemUser, folder: string): boolean {
  return spawnSync("/bin/sh", ["-c", 'cd -- "$0"', folder], { ...user, cwd: "/", stdio: "ignore" }).status === 0;
}

/** Returns true if the user can run the program and load its libraries. The program must support `--version`. */
export function canRun(user: SystemUser, program: string): boolean {
  return spawnSync(program, ["--version"], { ...user, cwd: "/", stdio: "ignore" }).status === 0;
}

async function findPostgresUser(): Promise<SystemUser | undefined> {
  try {
    const [uid, gid] = await Promise.all(["-u", "-g"].map((flag) => execFileAsync("id", [flag, POSTGRES_USER_NAME])));
    return uid && gid ? { uid: Number(uid.stdout), gid: Number(gid.stdout) } : undefined;
  } catch {
    return undefined; // the command `id` exits with 1 if the user does not exist
  }
}
