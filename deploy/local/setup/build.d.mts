/** Compiles the project into the folder `.build` if a source file has changed, and returns the folder. */
export function ensureBuilt(projectFolder: string): Promise<string>;

/** Links the files that the compiled code needs and that the compiler does not write. */
export function linkAssets(projectFolder: string, buildFolder: string): void;
