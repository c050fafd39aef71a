import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { clinicCommandLine } from "../../../command/cli/command-line.ts";
import { parseLine } from "../../../command/cli/import/import-line.ts";
import { hashSecret } from "../../../command/operations/credentials.ts";
import type { PartnerApplicationEvent } from "../../../shared/domain/events/partner.ts";
import { createEventLog } from "../../../shared/eventstore/log.ts";
import { connectToLog } from "../../support/connections.ts";
import { startGrpcProxy } from "../../support/grpc-proxy.ts";
import { startRefusingLog } from "../../support/refusing-log.ts";
import { getTestServers } from "../../support/stack.ts";
import { runClinic } from "./terminal.ts";

const LAKE_VETS_OPTIONS = [
  ...["--slug", "lake-vets", "--name", "Lake Vets", "--timezone", "Europe/Zurich"],
  ...["--currency", "CHF", "--locale", "de-CH"],
];

describe("the operator's command line", () => {
  let env: NodeJS.ProcessEnv;
  before(async () => {
    env = { EVENTSTORE_URL: (await getTestServers()).eventstoreUrl };
  });

  it("`clinic register` records an event and prints the clinic's id", async () => {
    const result = await runClinic(["clinic", "register", ...LAKE_VETS_OPTIONS], { env });
    expect(result).to.deep.include({ code: 0, errorLines: [] });
    const id = /^clinic register: done, clinic ([0-9a-f-]{36})$/.exec(result.outputLines.join("\n"))?.[1] ?? "";
    const secondResult = await runClinic(["clinic", "register", ...LAKE_VETS_OPTIONS, "--clinic", id], { env });
    expect(secondResult).to.deep.equal({
      code: 0,
      outputLines: [`clinic register: nothing to change, clinic ${id}`],
      errorLines: [],
    });
  });

  it("`clinic register --json` prints the result as JSON with the log position", async () => {
    const id = randomUUID();
    const result = await runClinic(["clinic", "register", ...LAKE_VETS_OPTIONS, "--clinic", id, "--json"], { env });
    const { position, ...output } = JSON.parse(result.outputLines.join("\n"));
    expect(output).to.deep.equal({ command: "clinic register", clinicId: id, changed: true });
    expect(position).to.match(/^\d+$/);
  });

  it("without TLS, the user in the connection string is not the actor, because the log does not authenticate the user", async () => {
    const [id, url] = [randomUUID(), env.EVENTSTORE_URL ?? ""];
    const userEnv = { EVENTSTORE_URL: url.replace("esdb://", "esdb://ada%40example.com:secret@") };
    const args = ["clinic", "register", ...LAKE_VETS_OPTIONS, "--clinic", id, "--actor", "Ada Example"];
    expect((await runClinic(args, { env: userEnv })).code).to.equal(0);
    const client = connectToLog(url);
    const [event] = await createEventLog(client).read(`clinic-${id}`);
    expect(event?.metadata.actor).to.deep.equal({ type: "operator", id: "Ada Example" });
  });

  it("`partner issue-credential` prints a client secret and stores only the hash of the secret", async () => {
    const id = randomUUID();
    const registerArgs = ["partner", "register", "--application", id, "--name", "Planner", "--environment", "sandbox"];
    expect((await runClinic([...registerArgs, "--scopes", "clinic:read, appointments:read"], { env })).code).to.equal(
      0,
    );
    const { outputLines: out } = await runClinic(["partner", "issue-credential", "--application", id, "--json"], {
      env,
    });
    const { clientSecret, ...output } = JSON.parse(out.join("\n"));
    expect(output).to.include({ applicationId: id, changed: true });
    const client = connectToLog(env.EVENTSTORE_URL ?? "");
    const events = await createEventLog(client).read<PartnerApplicationEvent>(`partnerApplication-${id}`);
    const issuedEvent = events.find(({ type }) => type === "CredentialIssued");
    expect(issuedEvent?.data).to.include({ secretHash: hashSecret(clientSecret) });
  });

  it("in text, a secret is on a line of its own", async () => {
    const id = randomUUID();
    const names = ["--name", "Planner", "--environment", "sandbox", "--scopes", "clinic:read"];
    await runClinic(["partner", "register", "--application", id, ...names], { env });
    const { outputLines } = await runClinic(["partner", "issue-credential", "--application", id], { env });
    const [result, secret] = outputLines.join("\n").split("\n");
    expect(result).to.match(/^partner issue-credential: done, application [0-9a-f-]{36}, credential [0-9a-f-]{36}$/);
    expect(secret).to.match(/^client secret: cs_[\w-]{43}$/);
  });

  it("`customer change` clears a detail if the value of the option is empty, and keeps all other details", async () => {
    const [id, clinicId] = [randomUUID(), randomUUID()];
    await runClinic(["clinic", "register", ...LAKE_VETS_OPTIONS, "--clinic", clinicId], { env });
    const idOptions = ["--customer", id, "--clinic", clinicId];
    const registerArgs = ["customer", "register", ...idOptions, "--full-name", "Ada", "--phone", "1", "--city", "Zug"];
    await runClinic(registerArgs, { env });
    await runClinic(["customer", "change", ...idOptions, "--phone", ""], { env });
    const unchangedResult = await runClinic(["customer", "change", ...idOptions, "--city", "Zug", "--phone", ""], {
      env,
    });
    expect(unchangedResult.outputLines.join()).to.contain("nothing to change");
  });

  const wrongCommands: [string, string[], string][] = [
    ["a missing option", ["clinic", "reinstate"], "clinic: --clinic is missing"],
    ["an unknown option", ["clinic", "reinstate", "--wrong"], "clinic: unknown option '--wrong'"],
    ["an unknown noun", ["hospital"], "clinic: unknown command 'hospital'"],
    ["an unknown verb with --help", ["clinic", "fly", "--help"], "clinic: unknown command 'fly'"],
    [
      "a verb that has another name",
      ["appointment", "move", "--help"],
      "clinic: unknown command 'move' (Did you mean reschedule?)",
    ],
    [
      "each wrong value",
      ["animal", "weigh", "--animal", "x", "--clinic", randomUUID(), "--weight-kg", "heavy"],
      "clinic: --animal must be a UUID; --weight-kg must be of type number",
    ],
    [
      "numbers that cannot be stored exactly",
      [
        ...[
          "resource",
          "add",
          "--clinic",
          randomUUID(),
          "--branch",
          randomUUID(),
          "--resource-type",
          "x",
          "--name",
          "x",
        ],
        ...["--metadata", '{"a":1e400}', "--capacity", "12345678901234567890"],
      ],
      "clinic: --capacity must be of type number; --metadata must be JSON, with numbers that can be stored exactly, and each name once in an object",
    ],
    [
      "a deprecated time zone name",
      ["clinic", "register", ...LAKE_VETS_OPTIONS, "--timezone", "US/Eastern"],
      "clinic: --timezone must be an IANA time zone such as Europe/Zurich, or UTC",
    ],
    [
      "a --log-wait that is not a number",
      ["clinic", "reinstate", "--clinic", randomUUID(), "--log-wait", "soon"],
      "clinic: --log-wait must be a whole number of seconds from 0 to 86400",
    ],
    [
      "an empty actor",
      ["clinic", "reinstate", "--clinic", randomUUID(), "--actor", ""],
      "clinic: --actor must have 1 to 200 characters",
    ],
  ];
  for (const [caseName, words, line] of wrongCommands)
    it(`the command line exits with 2 and prints one line for ${caseName}`, async () => {
      expect(await runClinic(words, { env })).to.deep.equal({ code: 2, outputLines: [], errorLines: [line] });
    });

  it("the command line prints its help if the command or the verb is missing", async () => {
    for (const words of [[], ["clinic"]]) {
      const { code, outputLines, errorLines } = await runClinic(words, { env });
      expect([code, errorLines]).to.deep.equal([2, ["clinic: no command given"]]);
      expect(outputLines.join("\n")).to.match(/^Usage: clinic [\s\S]*\nCommands:\n[\s\S]*\nExample:\n/);
    }
  });

  it("the command line exits with 3 if a domain rule refuses the command", async () => {
    const result = await runClinic(["clinic", "reinstate", "--clinic", randomUUID()], { env });
    const line = "clinic: refused: there is no such clinic (clinic_not_found)";
    expect(result).to.deep.equal({ code: 3, outputLines: [], errorLines: [line] });
  });

  for (const grpcStatus of [7, 16] as const)
    it(`the command line exits with 2 if the event log denies access with gRPC status ${grpcStatus}`, async () => {
      const log = await startRefusingLog(grpcStatus);
      const result = await runClinic(["clinic", "reinstate", "--clinic", randomUUID()], {
        env: { EVENTSTORE_URL: log.url },
      });
      log.stop();
      const line = "clinic: the event log denies access; check the user in EVENTSTORE_URL and the rights of this user";
      expect(result).to.deep.equal({ code: 2, outputLines: [], errorLines: [line] });
    });

  it("the command line exits with 4 if the event log is unavailable", async () => {
    const unreachableEnv = { EVENTSTORE_URL: "esdb://127.0.0.1:1?tls=false" };
    const result = await runClinic(["clinic", "reinstate", "--clinic", randomUUID(), "--log-wait", "0"], {
      env: unreachableEnv,
    });
    expect(result).to.deep.equal({
      code: 4,
      outputLines: [],
      errorLines: ["clinic: the event log is unavailable; check EVENTSTORE_URL and try again"],
    });
  });

  it("a command waits for an event log that is unavailable for a moment", async () => {
    const proxy = await startGrpcProxy(env.EVENTSTORE_URL ?? "");
    let refusalCount = 0;
    proxy.onStep = (step, call) => {
      if (step !== "opened" || refusalCount === 4) return;
      refusalCount += 1;
      call.refuse(14);
    };
    const args = ["clinic", "register", ...LAKE_VETS_OPTIONS, "--clinic", randomUUID()];
    const { code, errorLines } = await runClinic(args, { env: { EVENTSTORE_URL: proxy.url } });
    await proxy.close();
    expect([code, refusalCount]).to.deep.equal([0, 4]);
    expect(errorLines).to.deep.equal([
      "clinic register: the event log does not answer; retrying for up to 10 s",
      "clinic register: the event log is available again",
    ]);
  });

  it("if EVENTSTORE_URL is missing, the command line exits with 2 and names the setting", async () => {
    const result = await runClinic(["clinic", "reinstate", "--clinic", randomUUID()], { env: {} });
    expect(result.code).to.equal(2);
    expect(result.errorLines.join("\n")).to.match(/^clinic: settings: EVENTSTORE_URL is missing [^\n]*$/);
  });
});

describe("the help of the operator's command line", () => {
  it("the help of every command has its example", async () => {
    for (const { name, example } of clinicCommandLine.commands) {
      const result = await runClinic([...name.split(" "), "--help"]);
      expect(result.code, name).to.equal(0);
      const unfoldedHelp = result.outputLines.join("\n").replaceAll(/ \\\n */g, " ");
      expect(unfoldedHelp).to.contain(`clinic ${name} ${example}`);
    }
  });

  it("the help of `import` has valid example lines", async () => {
    const { outputLines: out } = await runClinic(["import", "--help"]);
    const lines = out
      .join("\n")
      .split("\n")
      .filter((line) => line.startsWith('  {"command"'));
    expect(lines).to.have.length(2);
    for (const line of lines) expect(parseLine(line)).to.have.property("values");
  });

  it("the help lists the noun of every command", async () => {
    const { code, outputLines: out } = await runClinic(["--help"]);
    expect(code).to.equal(0);
    for (const { name } of clinicCommandLine.commands) expect(out.join("\n")).to.contain(name.split(" ")[0]);
    expect((await runClinic(["import", "--help"])).outputLines.join("\n")).to.contain("--dry-run");
  });
});
