import os from "node:os";

/** Returns the name of this process's user; undefined if the user has only a number, as in a container. */
export function findUserName(): string | undefined {
  try {
    return os.userInfo().username;
  } catch {
    return undefined;
  }
}
