/**
 * `npm run test:clients`: generates clients from the published OpenAPI document of the partner API, compiles them, and
 * runs the same requests with each client. A generator that is not on the PATH is skipped by name.
 */
import { execFile } from "node:child_process";
import { copyFile, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { PROJECT_FOLDER } from "../../deploy/local/setup/project.ts";
import { findOnPath } from "../../deploy/local/setup/system-package.ts";
import { type DocumentedService, startDocumentedService } from "../docs/documented-service.ts";
import { makeTestRoot } from "../support/stack.ts";

type Command = readonly [program: string, ...args: string[]];

/** A client generator. Its commands run in a new folder, which contains the OpenAPI document as `openapi.json`. */
interface Generator {
  /** Name of the generator and the target language. */
  name: string;
  versionCommand: Command;
  /** Programs that the commands need besides the generator. */
  toolchain: readonly string[];
  /** Contents of further files, by file name. */
  files?: Readonly<Record<string, string>>;
  /** Program that uses the client: its name in the folder `journeys`, and its name in the new folder. */
  journey?: readonly [source: string, target: string];
  /** Commands that generate and compile the client. */
  commands: readonly Command[];
  /** Runs the program in `journey`. Undefined if the client is only compiled. */
  runCommand?: Command;
}

/** Output that each journey must print. The error code is optional, because Kiota's errors do not contain it. */
const JOURNEY_OUTPUT =
  /^context Sandbox Clinic\ncreated requested\nlisted true\nendpoint active\nrefused 422( validation_failed)?\n$/;

const GENERATION_TIMEOUT_MS = 600_000;

const tsc = path.join(PROJECT_FOLDER, "node_modules", "typescript", "bin", "tsc");
const compileTypeScript: Command = [
  ...[process.execPath, tsc, "--noEmit", "--strict", "--skipLibCheck", "--allowImportingTsExtensions"],
  ...["--module", "esnext", "--moduleResolution", "bundler", "--target", "es2023"],
  ...["--lib", "es2023,dom,dom.iterable", "--types", "node"],
] as string[] as [string, ...string[]];
/** Runs openapi-typescript with TypeScript 5, which it needs. */
const openapiTypescript: Command = [
  ...[process.execPath, "--import", path.join(PROJECT_FOLDER, "test", "docs", "typescript-5.mjs")],
  path.join(PROJECT_FOLDER, "node_modules", "openapi-typescript", "bin", "cli.js"),
] as unknown as Command;
const tsx: Command = [process.execPath, "--import", import.meta.resolve("tsx")];

const oapiCodegenSettings = `package: main
generate: { models: true, client: true }
output: partner.go
output-options: { skip-prune: true }
`;

const kiotaProject = `<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup>
    <OutputType>Exe</OutputType>
    <TargetFramework>net10.0</TargetFramework>
    <Nullable>enable</Nullable>
    <ImplicitUsings>enable</ImplicitUsings>
  </PropertyGroup>
  <ItemGroup>
    <PackageReference Include="Microsoft.Kiota.Http.HttpClientLibrary" Version="2.*" />
    <PackageReference Include="Microsoft.Kiota.Serialization.Form" Version="2.*" />
    <PackageReference Include="Microsoft.Kiota.Serialization.Json" Version="2.*" />
    <PackageReference Include="Microsoft.Kiota.Serialization.Multipart" Version="2.*" />
    <PackageReference Include="Microsoft.Kiota.Serialization.Text" Version="2.*" />
  </ItemGroup>
</Project>
`;

const generators: readonly Generator[] = [
  {
    name: "openapi-typescript with openapi-fetch",
    versionCommand: [...openapiTypescript, "--version"],
    toolchain: [],
    journey: ["openapi-typescript.ts", "journey.ts"],
    commands: [
      [...openapiTypescript, "openapi.json", "--output", "partner-api.ts"],
      [...compileTypeScript, "journey.ts"],
    ],
    runCommand: [...tsx, "journey.ts"],
  },
  {
    name: "@hey-api/openapi-ts",
    versionCommand: ["openapi-ts", "--version"],
    toolchain: [],
    journey: ["hey-api.ts", "journey.ts"],
    commands: [
      ["openapi-ts", "--input", "openapi.json", "--output", "client", "--client", "@hey-api/client-fetch"],
      [...compileTypeScript, "journey.ts"],
    ],
    runCommand: [...tsx, "journey.ts"],
  },
  {
    name: "oapi-codegen (Go)",
    versionCommand: ["oapi-codegen", "--version"],
    toolchain: ["go"],
    files: { "settings.yaml": oapiCodegenSettings, "go.mod": "module example.com/client\n\ngo 1.24\n" },
    journey: ["oapi-codegen.go", "main.go"],
    commands: [
      ["oapi-codegen", "-config", "settings.yaml", "openapi.json"],
      // Without modules, packages are in GOPATH.
      ...(process.env.GO111MODULE === "off" ? [] : [["go", "mod", "tidy"] as const]),
      ["go", "build", "-o", "journey", "."],
    ],
    runCommand: ["./journey"],
  },
  {
    name: "openapi-python-client",
    versionCommand: ["openapi-python-client", "--version"],
    toolchain: ["python3"],
    journey: ["openapi_python_client.py", "journey.py"],
    commands: [
      ["openapi-python-client", "generate", "--path", "openapi.json", "--meta", "none", "--output-path", "partner_api"],
      ["python3", "-m", "compileall", "-q", "partner_api"],
    ],
    runCommand: ["python3", "journey.py"],
  },
  {
    name: "Kiota (C#)",
    versionCommand: ["kiota", "--version"],
    toolchain: ["dotnet"],
    files: { "Journey.csproj": kiotaProject },
    journey: ["Kiota.cs", "Journey.cs"],
    commands: [
      ["kiota", ..."generate -l CSharp -d openapi.json -o Partner -c PartnerClient -n Partner".split(" ")],
      ["dotnet", "build", "--output", "bin"],
    ],
    runCommand: ["dotnet", "bin/Journey.dll"],
  },
  {
    name: "openapi-generator (TypeScript)",
    versionCommand: ["openapi-generator", "version"],
    toolchain: ["java"],
    commands: [
      ["openapi-generator", "generate", "-i", "openapi.json", "-o", "client", "-g", "typescript-fetch"],
      [...compileTypeScript, "client/index.ts"],
    ],
  },
  {
    name: "openapi-generator (Python)",
    versionCommand: ["openapi-generator", "version"],
    toolchain: ["java", "python3", "jq"],
    commands: [
      ["sh", "-c", "jq 'del(.webhooks)' openapi.json > api.json"],
      ["openapi-generator", "generate", "-i", "api.json", "-o", "client", "-g", "python"],
      ["python3", "-m", "compileall", "-q", "client"],
    ],
  },
];

describe("generated clients of the partner API", function () {
  this.timeout(2 * GENERATION_TIMEOUT_MS);
  let service: DocumentedService;
  let document: string;

  before(async () => {
    service = await startDocumentedService();
    document = await (await fetch(`${service.origin}/partner/v1/openapi.json`)).text();
  });

  for (const generator of generators) {
    const verb = generator.runCommand ? "runs against the partner API" : "compiles";
    it(`a client of ${generator.name} ${verb}`, async function () {
      const missingProgram = [generator.versionCommand[0], ...generator.toolchain].find(
        (name) => !findOnPath(path.basename(name)),
      );
      const addToTitle = (text: string) => {
        if (this.test) this.test.title += ` (${text})`;
      };
      if (missingProgram) {
        addToTitle(`skipped: ${missingProgram} is not on the PATH`);
        this.skip();
      }
      const folder = makeTestRoot();
      const version = await run(generator.versionCommand, folder);
      addToTitle(/\d+\.\d+\.\d+\S*/.exec(version)?.[0] ?? "unknown version");
      await prepareFolder(folder, generator);
      for (const command of generator.commands) await run(command, folder);
      if (!generator.runCommand) return;
      const { env } = await service.createSandboxPartner();
      expect(await run(generator.runCommand, folder, env)).to.match(JOURNEY_OUTPUT);
    });
  }

  async function prepareFolder(folder: string, { files = {}, journey }: Generator): Promise<void> {
    await symlink(path.join(PROJECT_FOLDER, "node_modules"), path.join(folder, "node_modules"));
    const allFiles = { "package.json": '{ "type": "module" }', "openapi.json": document, ...files };
    for (const [name, text] of Object.entries(allFiles)) await writeFile(path.join(folder, name), text);
    if (!journey) return;
    const [source, target] = journey;
    await copyFile(path.join(import.meta.dirname, "journeys", source), path.join(folder, target));
  }
});

/** @throws {Error} with the program's output if the exit code is not 0 */
async function run([program, ...args]: Command, folder: string, env: Record<string, string> = {}): Promise<string> {
  const options = { cwd: folder, timeout: GENERATION_TIMEOUT_MS, maxBuffer: 2 ** 26 };
  const telemetryEnv = { DOTNET_CLI_TELEMETRY_OPTOUT: "1", DOTNET_NOLOGO: "1", KIOTA_TELEMETRY_OPTOUT: "1" };
  const buildEnv = { DOTNET_CLI_USE_MSBUILD_SERVER: "0", MSBUILDDISABLENODEREUSE: "1", UseSharedCompilation: "false" };
  const fullEnv = { ...process.env, ...telemetryEnv, ...buildEnv, KIOTA_OFFLINE_ENABLED: "true", ...env };
  try {
    return (await promisify(execFile)(program, args, { ...options, env: fullEnv })).stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    throw new Error(`${[program, ...args].join(" ")} failed:\n${stdout}${stderr}`.slice(0, 4_000), { cause: error });
  }
}
