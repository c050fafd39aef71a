/** Bundles the tests and the programs that they start in separate processes. */
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { type BuildOptions, build, type Plugin } from "esbuild";
import { PROJECT_FOLDER } from "../../deploy/local/setup/project.ts";

/** Programs and threads to bundle, because many tests start them. Other programs run as compiled. */
const ENTRIES = [
  "command/audit/main.ts",
  "command/cli/main.ts",
  "command/main.ts",
  "deploy/local/eventstore/main.ts",
  "deploy/local/gateway/main.ts",
  "projection/cli/main.ts",
  "projection/engine/log-reader-thread.ts",
  "projection/main.ts",
  "query-api/main.ts",
  "test/deploy/local/supervised-servers.ts",
  "test/projection/webhooks/webhooks-process.ts",
];

/** Loader of the bundled programs. */
const LOADER_URL = pathToFileURL(path.join(PROJECT_FOLDER, "test/support/run-bundle.mjs")).href;

/**
 * Replaces the compiled programs of a build by bundles.
 *
 * @param buildDir folder with the compiled project
 */
export async function bundlePrograms(buildDir: string): Promise<void> {
  await bundle(PROJECT_FOLDER, ENTRIES, buildDir);
}

/**
 * Bundles test files without their packages. Loading the bundles takes a third of the CPU time of loading the sources.
 *
 * Code of the product finds its files in the build. Code of the tests finds its files in the source tree.
 *
 * @param buildDir folder of the build, which gets the bundles
 * @param entries paths in the source tree
 * @returns folder of the bundles, which have the same relative paths
 */
export async function bundleTests(buildDir: string, entries: readonly string[]): Promise<string> {
  const outDir = path.join(buildDir, "bundled-tests");
  const isTest = (file: string) => /^(test|deploy)\//.test(path.relative(PROJECT_FOLDER, file));
  const locate = (file: string) => (isTest(file) ? file : locateCompiledFile(file, PROJECT_FOLDER, buildDir));
  await build({
    ...createBuildOptions(PROJECT_FOLDER, entries, outDir),
    format: "esm",
    splitting: true,
    chunkNames: "chunks/[hash]",
    packages: "external",
    sourcemap: "linked", // failures name the lines of the sources
    plugins: [createLocationPlugin(locate)],
  });
  return outDir;
}

/**
 * Bundles programs with their packages. The bundles are CommonJS, because Node can store compiled code only for
 * CommonJS.
 *
 * @param sourceDir folder of the source tree
 * @param entries paths in the source tree
 * @param outDir folder for the bundles, which have the same relative paths
 */
export async function bundle(sourceDir: string, entries: readonly string[], outDir: string): Promise<void> {
  const entryFiles = new Set(entries.map((entry) => path.join(sourceDir, entry)));
  const locate = (file: string) => locateCompiledFile(file, sourceDir, outDir);
  await build({
    ...createBuildOptions(sourceDir, entries, outDir),
    // Node 20 parses a source map when it loads a file, which takes a fifth of a program's start. Names and lines stay
    // readable without it.
    sourcemap: false,
    minifyWhitespace: true,
    lineLimit: 120,
    format: "cjs",
    supported: { "dynamic-import": false }, // the stored code cannot import further modules
    outExtension: { ".js": ".cjs" },
    plugins: [createLocationPlugin(locate, (file, source) => (entryFiles.has(file) ? wrapStatements(source) : source))],
  });
  for (const file of entryFiles) {
    const program = locate(file);
    const bundleFile = program.replace(/\.js$/, ".cjs");
    fs.writeFileSync(
      program,
      `import { runBundle } from "${LOADER_URL}";\nrunBundle(${JSON.stringify(bundleFile)});\n`,
    );
  }
}

/** Moves the statements of a module into an asynchronous function, because CommonJS has no top-level `await`. */
function wrapStatements(source: string): string {
  const head = /^(\s|\/\*[\s\S]*?\*\/|\/\/.*|import [\s\S]*?;)*/.exec(source)?.[0] ?? "";
  return `${head}void (async () => {${source.slice(head.length)}})();`;
}

function createBuildOptions(sourceDir: string, entries: readonly string[], outDir: string): BuildOptions {
  return {
    absWorkingDir: sourceDir,
    entryPoints: [...entries],
    outdir: outDir,
    outbase: sourceDir,
    bundle: true,
    platform: "node",
    target: `node${process.versions.node}`,
    keepNames: true,
    logLevel: "warning",
  };
}

function locateCompiledFile(file: string, sourceDir: string, outDir: string): string {
  return path.join(outDir, path.relative(sourceDir, file).replace(/\.ts$/, ".js"));
}

/**
 * Replaces `import.meta.dirname` and `import.meta.url`, because code finds its files relative to its own location. In a
 * bundle, they would be the location of the bundle.
 *
 * @param locate returns the location to use for a source file
 * @param transform changes the source of a file
 */
function createLocationPlugin(
  locate: (file: string) => string,
  transform: (file: string, source: string) => string = (_file, source) => source,
): Plugin {
  return {
    name: "location",
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, async ({ path: file }) => {
        const source = transform(file, await fs.promises.readFile(file, "utf8"));
        const contents = source
          .replace(/import\.meta\.dirname/g, JSON.stringify(path.dirname(locate(file))))
          .replace(/import\.meta\.url/g, JSON.stringify(pathToFileURL(locate(file)).href));
        return { contents, loader: "ts" };
      });
    },
  };
}
