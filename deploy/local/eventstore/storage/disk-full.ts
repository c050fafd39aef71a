/** The disk is full. The append wrote nothing, and a later append can succeed. */
export class DiskFullError extends Error {
  override readonly name = "DiskFullError";
}

/** Returns true if an operation failed because the disk or the user's quota is full. */
export function isNoSpaceError(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOSPC" || code === "EDQUOT";
}
