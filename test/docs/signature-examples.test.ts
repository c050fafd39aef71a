import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { Webhook } from "standardwebhooks";
import { findOnPath } from "../../deploy/local/setup/system-package.ts";
import { eventually } from "../support/eventually.ts";
import { partnerDocument } from "../support/partner-document.ts";
import { type ReceivedRequest, startReceiver } from "../support/receiver.ts";
import { makeTestRoot } from "../support/stack.ts";
import { startDocumentedService } from "./documented-service.ts";
import { run } from "./sample-programs.ts";

/** Time limit of a test, which compiles a program. Milliseconds. */
const TEST_TIMEOUT_MS = 300_000;

/**
 * Program that runs an example's verification function for each line of standard input. A line contains secret, id,
 * timestamp, signatures and body (base64), separated by tabs. For each line, the program prints `true` or `false`.
 */
interface Harness {
  /** Files of the program. `{{example}}` is replaced by the example's code. */
  files: Readonly<Record<string, string>>;
  /** Command lines that build and run the program. */
  commands: readonly (readonly [program: string, ...args: string[]])[];
}

const harnesses: Readonly<Record<string, Harness>> = {
  "JavaScript (Node)": {
    files: {
      "verify.mjs": `{{example}}
import { readFileSync } from "node:fs";
for (const line of readFileSync("input", "utf8").split("\\n")) {
  const [secret, id, timestamp, signatures, body] = line.split("\\t");
  console.log(isAuthentic(secret, id, timestamp, signatures, Buffer.from(body, "base64")));
}`,
    },
    commands: [["node", "verify.mjs"]],
  },
  Python: {
    files: {
      "verify.py": `{{example}}
for line in open("input").read().split("\\n"):
    *texts, body = line.split("\\t")
    print(str(is_authentic(*texts, base64.b64decode(body))).lower())`,
    },
    commands: [["python3", "verify.py"]],
  },
  Go: {
    files: {
      "verify.go": "{{example}}",
      "main.go": `package main

import ("encoding/base64"; "fmt"; "os"; "strings")

func main() {
	input, _ := os.ReadFile("input")
	for _, line := range strings.Split(string(input), "\\n") {
		field := strings.Split(line, "\\t")
		body, _ := base64.StdEncoding.DecodeString(field[4])
		fmt.Println(isAuthentic(field[0], field[1], field[2], field[3], body))
	}
}`,
    },
    commands: [["go", "run", "main.go", "verify.go"]],
  },
  Java: {
    files: {
      "WebhookSignature.java": "{{example}}",
      "Main.java": `import java.nio.file.*;

class Main {
  public static void main(String[] args) throws Exception {
    for (String line : Files.readString(Path.of("input")).split("\\n")) {
      String[] field = line.split("\\t");
      byte[] body = java.util.Base64.getDecoder().decode(field[4]);
      System.out.println(WebhookSignature.isAuthentic(field[0], field[1], field[2], field[3], body));
    }
  }
}`,
    },
    commands: [
      ["javac", "Main.java", "WebhookSignature.java"],
      ["java", "Main"],
    ],
  },
  "C#": {
    files: {
      "verify.cs": `#:property PublishAot=false
{{example}}
foreach (var line in File.ReadAllText("input").Split('\\n'))
{
    var field = line.Split('\\t');
    var isAuthentic = IsAuthentic(field[0], field[1], field[2], field[3], Convert.FromBase64String(field[4]));
    Console.WriteLine(isAuthentic ? "true" : "false");
}`,
    },
    commands: [["dotnet", "run", "verify.cs"]],
  },
};

describe("the examples of signature verification in the API reference", function () {
  this.timeout(TEST_TIMEOUT_MS);
  let secret: string;
  let delivery: ReceivedRequest;

  before(async () => {
    const service = await startDocumentedService();
    const receiver = await startReceiver();
    const { partner } = await service.createSandboxPartner();
    const { body: sandboxBody } = await partner.request("GET", "/sandbox");
    const headers = { "X-SERVICE-Clinic-ID": sandboxBody.sandbox.clinicId };
    const body = { url: receiver.url, events: ["appointment.created"] };
    const registration = await partner.request("POST", "/webhook-endpoints", { headers, body });
    secret = registration.body.secret;
    await partner.request("POST", `/webhook-endpoints/${registration.body.endpoint.id}/test`, { headers });
    delivery = await eventually("the test event", () => receiver.requests[0]);
  });

  const examples = new Map(
    [...partnerDocument.info.description.matchAll(/<summary>(.+?)<\/summary>\n\n```\w+\n([\s\S]*?)```/g)].map(
      ([, language = "", code = ""]) => [language, code],
    ),
  );

  it("the API reference has an example of signature verification in each tested language", () => {
    expect([...examples.keys()]).to.deep.equal(Object.keys(harnesses));
  });

  for (const [language, { files, commands }] of Object.entries(harnesses)) {
    it(`the ${language} example in the API reference accepts a real delivery, and refuses forged and old ones`, async function () {
      const missing = commands.map(([program]) => program).find((program) => !findOnPath(program));
      if (missing || !(await canRunFiles(language))) {
        if (this.test) this.test.title += ` (skipped: ${missing ?? "dotnet"} is missing or too old)`;
        return this.skip();
      }
      const folder = path.join(makeTestRoot(), "example");
      mkdirSync(folder);
      for (const [name, text] of Object.entries(files))
        writeFileSync(
          path.join(folder, name),
          text.replace("{{example}}", () => examples.get(language) ?? ""),
        );
      const cases = listCases();
      writeFileSync(path.join(folder, "input"), cases.map(({ fields }) => fields.join("\t")).join("\n"));
      let output = "";
      for (const command of commands) output = await run(command, {}, folder);
      const results = Object.fromEntries(cases.map(({ name }, index) => [name, output.trim().split(/\r?\n/)[index]]));
      expect(results).to.deep.equal(Object.fromEntries(cases.map(({ name, isValid }) => [name, String(isValid)])));
    });
  }

  /** Returns false if .NET is too old to run a single file. */
  const canRunFiles = async (language: string) =>
    language !== "C#" || Number.parseInt(await run(["dotnet", "--version"], {}), 10) >= 10;

  /** Lists valid and invalid variants of the delivery. */
  function listCases() {
    const id = String(delivery.headers["webhook-id"]);
    const timestamp = String(delivery.headers["webhook-timestamp"]);
    const signatures = String(delivery.headers["webhook-signature"]);
    const webhook = new Webhook(secret);
    const sign = (ageSeconds: number) => {
      const signedAt = new Date(Date.now() - ageSeconds * 1000);
      const signature = webhook.sign(id, signedAt, delivery.body);
      return { timestamp: String(Math.floor(signedAt.getTime() / 1000)), signatures: signature };
    };
    const toCase = (name: string, isValid: boolean, changes: Partial<Record<string, string>> = {}) => {
      const values = { secret, id, timestamp, signatures, body: delivery.body, ...changes };
      const body = Buffer.from(values.body).toString("base64");
      return { name, isValid, fields: [values.secret, values.id, values.timestamp, values.signatures, body] };
    };
    return [
      toCase("the delivery", true),
      toCase("the second signature matches", true, { signatures: `v1,bm9uZQ== ${signatures}` }),
      toCase("the body was changed", false, { body: `${delivery.body} ` }),
      toCase("the id was changed", false, { id: "other" }),
      toCase("the timestamp was changed", false, { timestamp: String(Number(timestamp) - 1) }),
      toCase("the timestamp is not a number", false, { timestamp: "soon" }),
      toCase("the timestamp is too old", false, sign(310)),
      toCase("the timestamp is in the future", false, sign(-400)),
      toCase("the signature is missing", false, { signatures: "" }),
      toCase("the secret is a different one", false, { secret: `whsec_${Buffer.alloc(24).toString("base64")}` }),
    ];
  }
});
