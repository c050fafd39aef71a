import { randomUUID } from "node:crypto";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { z } from "zod";
import type { AuditEvent } from "../../../command/audit/log/audit-event.ts";
import { readStreamEvents } from "../../../command/audit/log/read-stream.ts";
import { createEventFilter, filterFields } from "../../../command/audit/queries/query-fields.ts";
import { toLeaf } from "../../../command/audit/tree/leaves.ts";
import { appendEvents } from "../../../shared/eventstore/append.ts";
import { createClinic } from "../../support/partner.ts";
import { runAuditCommand } from "./cli-terminal.ts";
import { CONFIRMATION_NOTE, getTypes, parseLines, type TestAuditor, useAuditWorld } from "./world.ts";

const APPOINTMENT_EVENT_TYPES = ["AppointmentRequested", "AppointmentConfirmed", "AppointmentCancelled"];

describe("a list of events", () => {
  const { world, history } = useAuditWorld({}, "\u001b[2J<b>loud</b>");
  let auditor: TestAuditor;

  before(async () => {
    auditor = await world.registerAuditor(null);
  });

  it("GET /audit/v1/events returns the actor, time, request and cause of each event of a stream", async () => {
    const { lines, end, headers } = await auditor.request(`/audit/v1/events?stream=${history.stream}`);
    expect(headers.get("Content-Type")).to.match(/^application\/x-ndjson/);
    expect(getTypes(lines)).to.deep.equal(APPOINTMENT_EVENT_TYPES);
    const { correlationId } = history.requestContext;
    const { storedAt, position, id, data, ...firstLine } = lines[0];
    expect(firstLine).to.deep.equal({
      stream: history.stream,
      revision: 0,
      type: "AppointmentRequested",
      schemaVersion: 1,
      occurredAt: "2026-05-04T08:00:00.000Z",
      actor: { type: "operator", id: "test" },
      clinicId: history.clinicId,
      environment: "production",
      correlationId,
      causationId: correlationId,
    });
    expect(Date.now() - Date.parse(storedAt)).to.be.within(-1_000, 120_000);
    expect([data.notes, id.length]).to.deep.equal(["\u001b[2J<b>loud</b>", 36]);
    expect(end).to.include({ count: 3, next: null });
    expect(BigInt(end.through) >= BigInt(position)).to.equal(true);
  });

  it("GET /audit/v1/events returns all events that are related to an object or a request, in log order", async () => {
    const listTypes = async (query: string) => getTypes((await auditor.request(`/audit/v1/events?${query}`)).lines);
    expect(await listTypes(`appointment=${history.appointmentId}`)).to.deep.equal(APPOINTMENT_EVENT_TYPES);
    expect(await listTypes(`animal=${history.animalId.toUpperCase()}`)).to.deep.equal([
      "AnimalRegistered",
      ...APPOINTMENT_EVENT_TYPES,
    ]);
    expect(await listTypes(`correlation=${history.requestContext.correlationId}`)).to.deep.equal(
      APPOINTMENT_EVENT_TYPES.slice(0, 1),
    );
    const types = ["CustomerRegistered", "AnimalRegistered", ...APPOINTMENT_EVENT_TYPES];
    expect(await listTypes(`customer=${history.customerId}`)).to.deep.equal(types);
    expect(await listTypes(`clinic=${history.clinicId}`)).to.include.members([
      "ClinicRegistered",
      "BranchOpened",
      ...types,
    ]);
  });

  it("GET /audit/v1/events refuses more types than exist with one problem, however many are unknown", async () => {
    const { status, body } = await auditor.request(`/audit/v1/events?stream=clinic-1&type=${"a,".repeat(10_000)}`);
    expect(status).to.equal(400);
    expect(body.details.map(({ path }: { path: string }) => path)).to.deep.equal(["type"]);
  });

  it("GET /audit/v1/events filters events by time, type and actor, and divides the list into pages", async () => {
    const listPage = async (filters: string) => {
      const { lines, end } = await auditor.request(`/audit/v1/events?stream=${history.stream}&${filters}`);
      return [getTypes(lines).map((type) => APPOINTMENT_EVENT_TYPES.indexOf(type)), end.next] as const;
    };
    for (const plus of ["%2B", "+"]) {
      const filters = `from=2026-05-04T08:10:00.0Z&to=2026-05-04T10:20:00${plus}02:00`;
      expect(await listPage(filters)).to.deep.equal([[1], null]);
    }
    expect((await listPage("from=2026-05-04T08:10:00Z&by=stored"))[0]).to.deep.equal([0, 1, 2]);
    expect((await listPage("type=AppointmentConfirmed,AppointmentCancelled"))[0]).to.deep.equal([1, 2]);
    expect((await listPage("actor=operator:test"))[0]).to.have.length(3);
    expect((await listPage("actor=test"))[0]).to.have.length(3);
    expect((await listPage("actor=application:test"))[0]).to.have.length(0);
    const filter = z.object(filterFields).parse({ actor: "operator:Zoe\u0308" });
    for (const id of ["Zoe\u0308", "Zo\u00eb"])
      expect(createEventFilter(filter)({ actor: { type: "operator", id } } as AuditEvent)).to.equal(true);
    const [firstPage, nextPosition] = await listPage("limit=2");
    expect(firstPage).to.deep.equal([0, 1]);
    expect(await listPage(`limit=2&after=${nextPosition}`)).to.deep.equal([[2], null]);
  });

  describe("at the command line", () => {
    it("the command `events` prints an aligned table to a pipe", async () => {
      const args = ["events", "--appointment", history.appointmentId, "--actor", "ada"];
      const { code, output } = await world.run(args);
      const [headerLine = "", ...rows] = output.trimEnd().split("\n");
      expect(code).to.equal(0);
      expect(rows.map((row) => row.slice(headerLine.indexOf("EVENT")).split(" ")[0])).to.deep.equal(
        APPOINTMENT_EVENT_TYPES,
      );
      expect(output).to.contain(history.requestContext.correlationId).and.to.contain("the request");
      expect(output).to.contain(` operator:test (${CONFIRMATION_NOTE}) `);
    });

    it("the command `events` records the access with the name of the operator", async () => {
      const actor = `ada-${randomUUID()}`;
      await world.run(["events", "--appointment", history.appointmentId, "--actor", actor]);
      const { lines } = await auditor.request(`/audit/v1/accesses?clinic=${history.clinicId}`);
      const accesses = lines.filter((access) => access.actor.id === actor);
      expect(accesses).to.have.length(1);
      expect(accesses[0]).to.deep.include({ action: "events", asked: { appointment: history.appointmentId } });
      expect(accesses[0].actor).to.deep.include({ type: "operator" });
    });

    it("the command `events --json` prints the same JSON lines as GET /audit/v1/events", async () => {
      const { output } = await world.run([
        "events",
        "--stream",
        history.stream,
        "--json",
        "--done-by",
        "operator:test",
      ]);
      const { lines } = await auditor.request(`/audit/v1/events?stream=${history.stream}`);
      expect(parseLines(output)).to.deep.equal(lines);
    });

    it("the table of the command `events` ends with the reason of each event", async () => {
      const { output } = await world.run(["events", "--stream", history.stream]);
      const endings = output
        .trimEnd()
        .split("\n")
        .map((line) => line.split(/ {2,}/).at(-1));
      expect(endings[0]).to.equal("REASON");
      expect([endings[1], endings[3]]).to.deep.equal(["Check-up", "Moved away"]);
    });

    it("the command `events` never truncates an id, and suggests the next command", async () => {
      const args = ["events", "--stream", history.stream, "--actor", "ada"];
      const env = { ...world.env, NO_COLOR: "1" };
      const { output, errorLines } = await runAuditCommand(args, { env, columns: 40 });
      expect(output.split("\n").slice(0, 3)).to.deep.equal([
        "2026-05-04 08:00:00.000Z  AppointmentRequested  by operator:test",
        `  ${history.stream} @ 0`,
        "  reason: Check-up",
      ]);
      expect(errorLines).to.deep.equal(["3 events", `Next: clinic audit replay ${history.stream}`]);
    });

    const refusedCommands: [string[], number, string][] = [
      [["events"], 2, "audit: must have exactly one of stream, appointment"],
      [["events", "--customer", "x"], 2, "audit: --customer must be a UUID"],
      [["events", "--clinic", randomUUID(), "--done-by", ""], 2, "audit: --done-by "],
      [["events", "--wrong"], 2, "audit: unknown option '--wrong'"],
      [["nothing"], 2, "audit: unknown command 'nothing'"],
      [[], 2, "audit: no command given"],
      [["as-of", `customer-${randomUUID()}`], 3, "audit: stream customer-"],
      [["as-of", "kitchen-1"], 2, "audit: --stream must name a stream"],
    ];
    for (const [args, code, line] of refusedCommands) {
      it(`running "${["audit", ...args].join(" ").slice(0, 40)}" fails with a line that starts with "${line}"`, async () => {
        const result = await world.run(args);
        expect([result.code, result.errorLines.length, result.errorLines[0]?.slice(0, line.length)]).to.deep.equal([
          code,
          1,
          line,
        ]);
      });
    }

    it("the command `events` reports in one line that the event log is unavailable", async () => {
      const env = { EVENTSTORE_URL: "esdb://127.0.0.1:1?tls=false" };
      const result = await runAuditCommand(["events", "--clinic", randomUUID()], { env });
      expect(result).to.deep.equal({
        code: 4,
        output: "",
        errorLines: ["audit: the event log is unavailable; check EVENTSTORE_URL and try again"],
      });
    });

    it("each command of the auditors' command line has help with an example", async () => {
      for (const name of ["events", "as-of", "diff", "replay", "export", "verify", "keys"]) {
        const { code, output: out } = await world.run([name, "--help"]);
        expect(code).to.equal(0);
        expect(out).to.match(new RegExp(`Examples?:\\n  clinic audit ${name} `));
      }
    });
  });

  it("the audit API lists an event that does not fit the schema together with the problem, and refuses to return a state", async () => {
    const stream = `portalUser-${randomUUID()}`;
    await world.client.appendToStream(
      stream,
      jsonEvent({ type: "ClinicSelected", data: { secretHash: "abc", odd: 1 } }),
    );
    const { lines } = await auditor.request(`/audit/v1/events?stream=${stream}`);
    expect(lines[0]).to.deep.include({
      actor: null,
      occurredAt: null,
      data: { secretHash: "(withheld)", odd: 1 },
    });
    expect(lines[0].problem).to.contain("does not fit its schema");
    const { status, body } = await auditor.request(`/audit/v1/state?stream=${stream}`);
    expect([status, body.error]).to.deep.equal([409, "stream_not_readable"]);
  });

  it("lists, exports and leaves contain events whose data canonical JSON cannot represent", async () => {
    const { clinicId } = await createClinic(world.log);
    const nestedText = `${"[".repeat(20_000)}${"]".repeat(20_000)}`;
    const members = { clinicId: `"${clinicId}"`, deep: nestedText, large: "[1e400,-1e400]", "a\\ud83d": '"b\\udc00"' };
    const text = `{${Object.entries(members).map(([name, value]) => `"${name}":${value}`)}}`;
    const stream = `appointment-${randomUUID()}`;
    const event = { id: randomUUID(), type: "Odd", contentType: "application/json" };
    const bytes = Buffer.from(text);
    await appendEvents(world.client, stream, -1n, [{ ...event, data: bytes, metadata: bytes }], 10_000);
    const auditEvents: AuditEvent[] = [];
    for await (const { auditEvent } of readStreamEvents(world.client, stream)) auditEvents.push(auditEvent);
    const [listed] = (await auditor.request(`/audit/v1/events?clinic=${clinicId}`)).lines.slice(-1);
    const exported = (await auditor.request(`/audit/v1/export?clinic=${clinicId}`)).text.trimEnd().split("\n");
    const exportedEvent = JSON.parse(exported.at(-2) ?? "");
    const { deep, ...others } = exportedEvent.data;
    expect(others).to.deep.equal({ clinicId, large: ["(omitted)", "(omitted)"], "a\ufffd": "b\ufffd" });
    expect(JSON.stringify(deep)).to.equal(`${"[".repeat(299)}"(omitted)"${"]".repeat(299)}`);
    expect(exportedEvent.metadata.deep).to.deep.equal(deep);
    expect(listed).to.deep.equal(exportedEvent);
    expect(auditEvents.map(toLeaf).map((leaf) => leaf.event.data)).to.deep.equal([exportedEvent.data]);
  });

  it("the command line escapes control characters in the type of an event", async () => {
    const stream = `portalUser-${randomUUID()}`;
    await world.client.appendToStream(stream, jsonEvent({ type: "Odd\u001b]0;owned\u0007", data: {} }));
    const { code, errorLines: err } = await world.run(["as-of", stream]);
    expect([code, err.length]).to.deep.equal([3, 1]);
    expect(err[0]).to.contain("Odd\\u001b]0;owned\\u0007 is unknown to this release");
  });
});
