import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { cancelAppointment, requestAppointment } from "../../../../command/operations/appointment-operations.ts";
import { createTestOperatorContext } from "../../../support/partner.ts";
import { createSigningKeys } from "../world.ts";
import { useExport } from "./export-world.ts";

describe("an audit export", () => {
  const { world, history, exported, verify } = useExport();

  const exportTo = (file: string) => world.run(["export", "--clinic", history.clinicId, "--out", file]);

  it("an export contains a clinic's events and a signed manifest, in a file that only the file's owner can read", async () => {
    const { file, lines } = exported;
    expect(fs.statSync(file).mode & 0o777).to.equal(0o600);
    expect(fs.existsSync(`${file}.part`)).to.equal(false);
    const { code, manifest } = await verify(lines.join(""));
    expect(code).to.equal(0);
    expect(manifest).to.deep.include({ format: "clinic-service-audit-export/1", clinicId: history.clinicId });
    expect(manifest).to.include({ count: lines.length - 1 });
    const events = lines.slice(0, -1).map((line) => JSON.parse(line));
    expect(events.map(({ type }) => type)).to.include.members(["ClinicRegistered", "AppointmentCancelled"]);
    expect(manifest.first).to.deep.equal({ position: events[0].position, id: events[0].id });
    expect(manifest.made.by).to.deep.equal({ type: "operator", id: "ada" });
    expect(lines.join("")).not.to.contain("encryptedSecret");
  });

  it("an export does not overwrite an existing file", async () => {
    const { code, errorLines: err } = await exportTo(exported.file);
    const line = `audit: --out ${exported.file} already exists; choose another file`;
    expect([code, err]).to.deep.equal([2, [line]]);
  });

  it("if an export cannot write the file, the export reports the reason in one line and keeps existing files", async () => {
    const { folder } = world;
    const blockedFile = path.join(folder, "blocked.ndjson");
    fs.mkdirSync(path.join(`${blockedFile}.part`, "inner"), { recursive: true });
    const cases = [
      [blockedFile, "directory"],
      [path.join(folder, "no-such-folder", "export.ndjson"), "ENOENT"],
      [path.join(exported.file, "export.ndjson"), "ENOTDIR"],
    ] as const;
    for (const [outFile, reason] of cases) {
      const { code, errorLines: err } = await exportTo(outFile);
      expect([code, err.length], err.join()).to.deep.equal([2, 1]);
      expect(err[0]).to.match(/^audit: --out [^\n]*$/);
      expect(err[0]).to.contain(`${outFile} cannot be written: `).and.contain(reason);
      expect(fs.existsSync(outFile)).to.equal(false);
    }
    expect(fs.readdirSync(`${blockedFile}.part`)).to.deep.equal(["inner"]);
  });

  it("an export replaces the temporary file that a killed export left behind", async () => {
    const file = path.join(world.folder, "again.ndjson");
    fs.writeFileSync(`${file}.part`, "half a li");
    expect((await exportTo(file)).code).to.equal(0);
    expect((await verify(fs.readFileSync(file, "utf8"))).code).to.equal(0);
    expect([fs.existsSync(`${file}.part`), fs.statSync(file).mode & 0o777]).to.deep.equal([false, 0o600]);
  });

  it("two exports of the same range differ only in the manifest's time and author", async () => {
    const { clinicId } = history;
    const rangeEnd = new Date().toISOString();
    const auditor = await world.registerAuditor([clinicId]);
    const getLines = async () =>
      (await auditor.request(`/audit/v1/export?clinic=${clinicId}&to=${rangeEnd}`)).text.split(/(?<=\n)/);
    const [firstLines, secondLines] = [await getLines(), await getLines()];
    expect(firstLines.slice(0, -1)).to.deep.equal(secondLines.slice(0, -1));
    const [firstManifest, secondManifest] = [firstLines, secondLines].map(
      (lines) => JSON.parse(lines.at(-1) ?? "").manifest,
    );
    expect({ ...firstManifest, made: null }).to.deep.equal({ ...secondManifest, made: null });
    expect(firstManifest.made.accessId).not.to.equal(secondManifest.made.accessId);
    const { accessId } = firstManifest.made;
    const { lines } = await (await world.registerAuditor(null)).request(
      `/audit/v1/events?stream=auditAccess-${accessId}`,
    );
    expect(lines.map(({ id, type, data }) => [id, type, data.action])).to.eql([[accessId, "AuditAccessed", "export"]]);
    expect((await verify(firstLines.join(""))).ok).to.equal(true);
  });

  it("an export excludes events that are appended after the start of the export", async () => {
    const { clinicId, branchId, animalId } = history;
    let isWriting = true;
    const writePromise = (async () => {
      while (isWriting) {
        const appointmentId = randomUUID();
        const scheduledAt = new Date(Date.now() + 86_400_000).toISOString();
        const details = { scheduledAt, durationMinutes: 30, reason: null, notes: null };
        const context = createTestOperatorContext();
        const appointment = { appointmentId, clinicId, branchId, animalId, ...details };
        await requestAppointment(world.log, appointment, context);
        await cancelAppointment(world.log, { appointmentId, clinicId, reason: null }, context);
      }
    })();
    const auditor = await world.registerAuditor([clinicId]);
    for (let round = 0; round < 3; round += 1) {
      const { text } = await auditor.request(`/audit/v1/export?clinic=${clinicId}`);
      const { ok, manifest } = await verify(text);
      expect(ok).to.equal(true);
      expect(BigInt(manifest.last.position) <= BigInt(manifest.made.logEnd)).to.equal(true);
    }
    isWriting = false;
    await writePromise;
  });

  it("GET /audit/v1/jwks.json requires no authentication and returns the public keys that verify exports", async () => {
    const response = await fetch(`${world.url}/audit/v1/jwks.json`);
    const keysText = await response.text();
    expect(keysText).not.to.contain('"d"');
    expect(JSON.parse(keysText)).to.deep.equal(JSON.parse(fs.readFileSync(world.keyFile, "utf8")));
  });

  it("the command `keys` prints the keys in AUDIT_SIGNING_KEYS, and prints one line if the setting is missing", async () => {
    const { code, output } = await world.run(["keys"], { AUDIT_SIGNING_KEYS: await createSigningKeys("own") });
    expect(code).to.equal(0);
    expect(JSON.parse(output).keys.map(({ kid }: { kid: string }) => kid)).to.deep.equal(["own"]);
    const withoutKeys = await world.run(["keys"], {});
    expect([withoutKeys.code, withoutKeys.errorLines.length, withoutKeys.output]).to.deep.equal([2, 1, ""]);
    expect(withoutKeys.errorLines[0]).to.match(/^audit: settings: AUDIT_SIGNING_KEYS is missing [^\n]*$/);
  });

  it("an export without a signing key fails and reports the missing setting in one line", async () => {
    const { EVENTSTORE_URL } = world.env;
    const { code, errorLines: err } = await world.run(["export", "--clinic", history.clinicId], {
      EVENTSTORE_URL,
    });
    expect([code, err.length]).to.deep.equal([2, 1]);
  });
});
