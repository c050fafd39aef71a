import fs from "node:fs";

/**
 * Splits test files into groups of about equal total file size, as an estimate of equal duration. Adds the files in
 * order of size, the largest first, each to the smallest group.
 */
export function splitFiles(files: readonly string[], groups: number): string[][] {
  const sized = files.map((file) => ({ file, size: fs.statSync(file).size }));
  const split = Array.from({ length: groups }, () => ({ files: [] as string[], size: 0 }));
  for (const { file, size } of sized.toSorted((a, b) => b.size - a.size || (a.file < b.file ? -1 : 1))) {
    const least = split.reduce((one, other) => (other.size < one.size ? other : one));
    least.files.push(file);
    least.size += size;
  }
  return split.map((group) => group.files.sort());
}
