import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { CompactSign, importJWK } from "jose";
import { CHAIN_SEED, nextLink } from "../../../command/audit/export/chain.ts";
import { canonicalJson } from "../../../command/audit/export/json.ts";
import { cancelAppointment, requestAppointment } from "../../../command/operations/appointment-operations.ts";
import { operatorContext } from "../../support/partner.ts";
import { makeTestRoot } from "../../support/stack.ts";
import { runAuditCommand } from "./cli-terminal.ts";
import {
  type AuditWorld,
  type ClinicHistory,
  createClinicWithHistory,
  createSigningKeys,
  startAuditWorld,
} from "./world.ts";

describe("an export", () => {
  let world: AuditWorld;
  let history: ClinicHistory;
  let folder: string;
  let keyFile: string;
  let file: string;
  let lines: string[];

  before(async () => {
    world = await startAuditWorld();
    history = await createClinicWithHistory(world.log, "notes with \u2028 and ünïcode 🐾");
    folder = makeTestRoot();
    keyFile = path.join(folder, "keys.json");
    fs.writeFileSync(keyFile, (await run(["keys"])).out);
    file = path.join(folder, "export.ndjson");
    expect(await run(["export", "--clinic", history.clinicId, "--out", file, "--actor", "ada"])).to.include({
      code: 0,
    });
    lines = fs.readFileSync(file, "utf8").split(/(?<=\n)/);
  });
  after(() => world.stop());

  const run = (words: string[], env: NodeJS.ProcessEnv = world.env) => runAuditCommand(words, { env });
  /** Offline: no setting is given. */
  const verify = (name: string, key = keyFile) => run(["verify", name, "--key", key, "--json"], {});

  /** What is said of a file with the given content. */
  async function verdict(content: string, key?: string) {
    const name = path.join(folder, `${randomUUID()}.ndjson`);
    fs.writeFileSync(name, content);
    const { code, out } = await verify(name, key);
    return { code, ...JSON.parse(out) };
  }

  it("contains a clinic's events and a signed manifest, readable only by its owner", async () => {
    expect(fs.statSync(file).mode & 0o777).to.equal(0o600);
    expect(fs.readdirSync(folder)).not.to.include("export.ndjson.part");
    const { code, out } = await verify(file);
    expect(code).to.equal(0);
    const { manifest } = JSON.parse(out);
    expect(manifest).to.deep.include({ format: "clinic-service-audit-export/1", clinicId: history.clinicId });
    expect(manifest).to.include({ count: lines.length - 1 });
    const events = lines.slice(0, -1).map((line) => JSON.parse(line).event);
    expect(events.map(({ type }) => type)).to.include.members(["ClinicRegistered", "AppointmentCancelled"]);
    expect(manifest.first).to.deep.equal({ position: events[0].position, id: events[0].id });
    expect(manifest.made.by).to.deep.equal({ type: "operator", id: "ada" });
    expect(lines.join("")).not.to.contain("encryptedSecret");
  });

  it("is verified with the thumbprint that the command line prints", async () => {
    const { out } = await run(["keys", "--thumbprint"]);
    expect((await verify(file, out.trim())).code).to.equal(0);
    const { code, out: text } = await run(["verify", file, "--key", out.trim()], {});
    expect([code, text]).to.satisfy(
      ([exit, said]: [number, string]) => exit === 0 && said.includes("complete and unaltered"),
    );
  });

  it("is never overwritten", async () => {
    const { code, err } = await run(["export", "--clinic", history.clinicId, "--out", file]);
    expect([code, err]).to.deep.equal([2, [`audit: --out ${file} already exists; choose another file`]]);
  });

  it("reports in one line why it cannot be written, and keeps existing files", async () => {
    const taken = path.join(folder, "taken.ndjson");
    fs.mkdirSync(path.join(`${taken}.part`, "inner"), { recursive: true });
    const cases = [
      [taken, "directory"],
      [path.join(folder, "no-such-folder", "export.ndjson"), "ENOENT"],
      [path.join(file, "export.ndjson"), "ENOTDIR"],
    ] as const;
    for (const [out, why] of cases) {
      const { code, err } = await run(["export", "--clinic", history.clinicId, "--out", out]);
      expect([code, err.length], err.join()).to.deep.equal([2, 1]);
      expect(err[0]).to.match(/^audit: --out [^\n]*$/);
      expect(err[0]).to.contain(`${out} cannot be written: `).and.contain(why);
      expect(fs.existsSync(out)).to.equal(false);
    }
    expect(fs.readdirSync(`${taken}.part`)).to.deep.equal(["inner"]);
  });

  it("replaces the temporary file of a killed export", async () => {
    const out = path.join(folder, "again.ndjson");
    fs.writeFileSync(`${out}.part`, "half a li");
    expect((await run(["export", "--clinic", history.clinicId, "--out", out])).code).to.equal(0);
    expect((await verify(out)).code).to.equal(0);
    expect([fs.existsSync(`${out}.part`), fs.statSync(out).mode & 0o777]).to.deep.equal([false, 0o600]);
  });

  const alter = (index: number, change: (line: string) => string) =>
    lines.map((line, place) => (place === index ? change(line) : line)).join("");
  const named: [string, () => string, number][] = [
    ["a line altered", () => alter(3, (line) => line.replace('"operator"', '"system"')), 4],
    ["a line dropped", () => lines.filter((_, index) => index !== 3).join(""), 4],
    ["the first line dropped", () => lines.slice(1).join(""), 1],
    ["the last event dropped", () => lines.filter((_, index) => index !== lines.length - 2).join(""), -1],
    ["a line put in twice", () => alter(3, (line) => line + line), 5],
    [
      "two lines changed about",
      () => [...lines.slice(0, 2), lines[3], lines[2], ...lines.slice(4)].join(""),
      3,
    ],
    ["a line of another form, with the same content", () => alter(2, (line) => line.replace(":", ": ")), 3],
    ["a line with two members of one name", () => alter(2, (line) => line.replace("{", '{"chain":"0",')), 3],
    ["a line end of another system", () => alter(2, (line) => line.replace("\n", "\r\n")), 3],
    [
      "half a surrogate pair",
      () => alter(2, (line) => line.replace(/"type":"[^"]*"/, '"type":"\\ud800"')),
      3,
    ],
    ["a blank line", () => alter(1, (line) => `${line}\n`), 3],
    ["an end that is missing", () => lines.slice(0, 4).join(""), 5],
    ["a line cut in the middle", () => lines.slice(0, 4).join("").slice(0, -20), 4],
    ["an empty file", () => "", 1],
    ["a last line without its end", () => lines.join("").slice(0, -1), 0],
    ["something after the manifest", () => `${lines.join("")}${lines[0]}`, 0],
    [
      "a manifest with another count",
      () => alter(lines.length - 1, (line) => line.replace(/"count":\d+/, '"count":1')),
      0,
    ],
    [
      "a manifest of another clinic",
      () => alter(lines.length - 1, (line) => line.replace(history.clinicId, randomUUID())),
      0,
    ],
    [
      "a manifest without its signature",
      () => alter(lines.length - 1, (line) => line.replace(/"signature":"[^"]*"/, '"signature":""')),
      0,
    ],
    [
      "a manifest that lacks the signature",
      () => alter(lines.length - 1, (line) => `${canonicalJson({ manifest: JSON.parse(line).manifest })}\n`),
      0,
    ],
  ];
  for (const [what, content, line] of named) {
    it(`is not verified with ${what}, and the first wrong line is named`, async () => {
      const { code, ok, line: found, problem } = await verdict(content());
      const expected = line > 0 ? line : lines.length + line;
      expect([code, ok, found], problem).to.deep.equal([3, false, expected]);
    });
  }

  /** The file of somebody who knows how it is made, with a chain and a manifest that fit. */
  async function forged(keys: string, change: (event: Record<string, unknown>) => void) {
    let link = CHAIN_SEED;
    const made = lines.slice(0, -1).map((line, index) => {
      const { event } = JSON.parse(line);
      if (index === 2) change(event);
      link = nextLink(link, canonicalJson(event));
      return `${canonicalJson({ chain: link, event })}\n`;
    });
    const { manifest } = JSON.parse(lines.at(-1) ?? "");
    manifest.chain = link;
    const [jwk] = JSON.parse(keys).keys;
    const { kty, crv, x } = jwk;
    const signature = await new CompactSign(Buffer.from(canonicalJson(manifest)))
      .setProtectedHeader({ alg: "EdDSA", typ: "audit-export+jws", jwk: { kty, crv, x } })
      .sign(await importJWK(jwk, "EdDSA"));
    const own = JSON.parse(lines.at(-1) ?? "").signature;
    return {
      made,
      resigned: [...made, `${canonicalJson({ manifest, signature })}\n`].join(""),
      manifest,
      own,
    };
  }

  it("is not verified if chain and manifest were recomputed, with another key or the old signature", async () => {
    const { made, resigned, manifest, own } = await forged(await createSigningKeys(), (event) => {
      event.type = "Forged";
    });
    expect(await verdict(resigned))
      .to.include({ ok: false, line: lines.length })
      .and.have.property("problem")
      .that.contains("untrusted key");
    // The signed marks locate the changed line.
    const kept = await verdict([...made, lines.at(-1)].join(""));
    expect(kept).to.deep.include({ ok: false, line: 3 });
    const mixed = await verdict([...made, `${canonicalJson({ manifest, signature: own })}\n`].join(""));
    expect(mixed).to.deep.include({ ok: false, line: 3 });
    const { resigned: same } = await forged(world.env.AUDIT_SIGNING_KEYS ?? "", () => undefined);
    expect((await verdict(same)).ok).to.equal(true);
  });

  it("is not verified by an untrusted key, and verification without a key is refused", async () => {
    const other = JSON.parse(await createSigningKeys());
    expect((await verdict(lines.join(""), JSON.stringify(other))).code).to.equal(3);
    const { code, err } = await verify(file, "no key");
    expect([code, err[0]]).to.satisfy(
      ([exit, line]: [number, string]) => exit === 2 && line.startsWith("audit: --key must be"),
    );
    expect((await verify(path.join(folder, "nothing"))).code).to.equal(2);
  });

  it("is not verified by a file named like the thumbprint that contains another key", async () => {
    const thumbprint = (await run(["keys", "--thumbprint"])).out.trim();
    const others = await createSigningKeys();
    const { resigned } = await forged(others, (event) => {
      event.type = "Forged";
    });
    const here = process.cwd();
    process.chdir(folder);
    try {
      fs.writeFileSync(thumbprint, (await run(["keys"], { ...world.env, AUDIT_SIGNING_KEYS: others })).out);
      expect((await verdict(resigned, `./${thumbprint}`)).ok, "by the file").to.equal(true);
      expect((await verdict(resigned, thumbprint)).problem).to.contain("untrusted key");
    } finally {
      process.chdir(here);
    }
  });

  describe("of a known clinic and range", () => {
    const range = { from: "2020-01-01T00:00:00.000Z", to: "2026-06-01T00:00:00.000Z" };
    let ranged: string;
    let signed: string;
    before(async () => {
      ranged = path.join(folder, "ranged.ndjson");
      const { clinicId } = history;
      const words = ["export", "--clinic", clinicId, "--from", "2020-01-01T01:00:00+01:00", "--to", range.to];
      signed = (await run([...words, "--out", ranged])).out;
    });

    const expecting = async (name: string, ...expected: string[]) => {
      const { code, err, out } = await run(["verify", name, "--key", keyFile, ...expected], {});
      return { code, line: err.join("\n"), out };
    };

    it("verifies with the command line that the export prints", async () => {
      const words = /audit -- (verify .*)/.exec(signed)?.[1]?.split(" ") ?? [];
      expect(words).to.include.members([
        "--clinic",
        history.clinicId,
        "--from",
        range.from,
        "--to",
        range.to,
      ]);
      expect((await run(words, {})).code).to.equal(0);
      const written = (await run(["verify", file, "--key", keyFile, "--from", "start"], {})).code;
      expect(written, "an export from the beginning").to.equal(0);
    });

    it("verifies with the expected times in any offset, and the clinic in any case", async () => {
      const options = ["--from", "2020-01-01T02:00:00+02:00", "--to", "2026-05-31T23:00:00-01:00"];
      const clinic = ["--clinic", history.clinicId.toUpperCase()];
      expect((await expecting(ranged, ...clinic, ...options)).code).to.equal(0);
    });

    it("fails if another clinic or range is expected, and names both values", async () => {
      const other = randomUUID();
      const line = fs.readFileSync(ranged, "utf8").trimEnd().split("\n").length;
      const cases: [string, string[], string][] = [
        [ranged, ["--clinic", other], `expected clinic ${other}, the manifest says ${history.clinicId}`],
        [ranged, ["--from", "start"], `expected from start, the manifest says ${range.from}`],
        [
          ranged,
          ["--from", "2020-01-01T00:00:00.001Z"],
          `expected from 2020-01-01T00:00:00.001Z, the manifest says ${range.from}`,
        ],
        [
          ranged,
          ["--to", "2026-05-01T00:00:00Z"],
          `expected to 2026-05-01T00:00:00.000Z, the manifest says ${range.to}`,
        ],
        [
          ranged,
          ["--to", "2026-05-01T00:00:00Z", "--from", "start"],
          `expected from start, the manifest says ${range.from}; expected to 2026-05-01T00:00:00.000Z, the manifest says ${range.to}`,
        ],
      ];
      for (const [name, expected, difference] of cases) {
        const found = await expecting(name, ...expected);
        expect([found.code, found.line]).to.deep.equal([
          3,
          `audit: ${name} is not verified: line ${line}: it is not the expected export: ${difference}`,
        ]);
        const verdict = JSON.parse((await expecting(name, ...expected, "--json")).out);
        expect(verdict).to.deep.equal({
          ok: false,
          line,
          problem: `it is not the expected export: ${difference}`,
        });
      }
      const whole = await expecting(file, "--from", range.from);
      expect(whole.line).to.contain(`expected from ${range.from}, the manifest says start`);
    });

    it("fails if its manifest was altered to match the expectation", async () => {
      const other = randomUUID();
      const text = fs.readFileSync(ranged, "utf8");
      const last = text.trimEnd().lastIndexOf("\n") + 1;
      const changes: [string, string, string[]][] = [
        [history.clinicId, other, ["--clinic", other]],
        [range.from, "2021-01-01T00:00:00.000Z", ["--from", "2021-01-01T00:00:00Z"]],
        [range.to, "2026-07-01T00:00:00.000Z", ["--to", "2026-07-01T00:00:00Z"]],
      ];
      for (const [from, to, expected] of changes) {
        const name = path.join(folder, `${randomUUID()}.ndjson`);
        const altered = text.slice(last).replaceAll(from, to);
        expect(altered).not.to.equal(text.slice(last));
        fs.writeFileSync(name, text.slice(0, last) + altered);
        const found = await expecting(name, ...expected);
        expect(found.code).to.equal(3);
        expect(found.line).to.contain("the manifest differs from the signed manifest");
      }
    });

    it("is not verified with an invalid expectation", async () => {
      const found = await expecting(ranged, "--clinic", "x", "--from", "yesterday", "--to", "start");
      expect([found.code, found.line]).to.deep.equal([
        2,
        "audit: --clinic must be a UUID; --from must be an RFC 3339 date-time with an offset, or start; --to must be an RFC 3339 date-time with an offset",
      ]);
    });
  });

  it("of the same range has the same bytes except for its time and creator", async () => {
    const to = new Date().toISOString();
    const auditor = await world.registerAuditor([history.clinicId]);
    const get = async () =>
      (await auditor.request(`/audit/v1/export?clinic=${history.clinicId}&to=${to}`)).text.split(/(?<=\n)/);
    const [one, other] = [await get(), await get()];
    expect(one.slice(0, -1)).to.deep.equal(other.slice(0, -1));
    const [first, second] = [one, other].map((text) => JSON.parse(text.at(-1) ?? "").manifest);
    expect({ ...first, made: null }).to.deep.equal({ ...second, made: null });
    expect(first.made.accessId).not.to.equal(second.made.accessId);
    expect((await verdict(one.join(""))).ok).to.equal(true);
  });

  it("can be empty and is still verified", async () => {
    const auditor = await world.registerAuditor(null);
    const { text, status } = await auditor.request(
      `/audit/v1/export?clinic=${history.clinicId}&to=2020-01-01T00:00:00Z`,
    );
    expect(status).to.equal(200);
    expect(await verdict(text))
      .to.deep.include({ ok: true })
      .and.have.nested.property("manifest.count", 0);
  });

  it("ends at the end of the log when it started, although events are appended meanwhile", async () => {
    const { clinicId, branchId, animalId } = history;
    let going = true;
    const writer = (async () => {
      while (going) {
        const appointmentId = randomUUID();
        const when = {
          scheduledAt: new Date(Date.now() + 86_400_000).toISOString(),
          durationMinutes: 30,
          reason: null,
          notes: null,
        };
        const context = operatorContext();
        await requestAppointment(
          world.log,
          { appointmentId, clinicId, branchId, animalId, ...when },
          context,
        );
        await cancelAppointment(world.log, { appointmentId, clinicId, reason: null }, context);
      }
    })();
    const auditor = await world.registerAuditor([clinicId]);
    for (let round = 0; round < 3; round += 1) {
      const { text } = await auditor.request(`/audit/v1/export?clinic=${clinicId}`);
      const { ok, manifest } = await verdict(text);
      expect(ok).to.equal(true);
      expect(BigInt(manifest.last.position) <= BigInt(manifest.made.logEnd)).to.equal(true);
    }
    going = false;
    await writer;
  });

  it("has public keys that can be fetched without authentication", async () => {
    const response = await fetch(`${world.url}/audit/v1/jwks.json`);
    const keys = await response.text();
    expect(keys).not.to.contain('"d"');
    expect((await verdict(lines.join(""), path.join(folder, "keys.json"))).ok).to.equal(true);
    expect(JSON.parse(keys)).to.deep.equal(JSON.parse(fs.readFileSync(keyFile, "utf8")));
  });

  it("requires a signing key, and reports a missing key in one line", async () => {
    const { EVENTSTORE_URL } = world.env;
    const none = { EVENTSTORE_URL };
    const { code, err } = await run(["export", "--clinic", history.clinicId], none);
    expect([code, err.length]).to.deep.equal([2, 1]);
  });
});
