import { randomUUID } from "node:crypto";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { findChanges } from "../../../command/audit/state/changes.ts";
import { getFold } from "../../../command/audit/state/replay.ts";
import { loadAggregate } from "../../../command/handling/handle.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import { appointmentAggregate } from "../../../shared/domain/appointment/appointment.ts";
import { customerAggregate } from "../../../shared/domain/clinic/customer.ts";
import { categories } from "../../../shared/domain/events/catalog.ts";
import { runAuditCommand } from "./cli-terminal.ts";
import { useAuditWorld } from "./world.ts";

describe("findChanges", () => {
  const cases: [string, unknown, unknown, object[]][] = [
    ["a changed value", { a: 1, b: 2 }, { a: 1, b: 3 }, [{ path: "b", before: 2, after: 3 }]],
    [
      "an added and a removed field",
      { a: 1 },
      { b: null },
      [
        { path: "a", before: 1 },
        { path: "b", after: null },
      ],
    ],
    ["a changed field of an object", { a: { b: 1 } }, { a: { b: 2 } }, [{ path: "a.b", before: 1, after: 2 }]],
    ["a list without ids, as a whole", { a: [1, 2] }, { a: [2, 1] }, [{ path: "a", before: [1, 2], after: [2, 1] }]],
    [
      "a list of objects with ids, by id",
      {
        a: [
          { id: "x", on: true },
          { id: "y", on: true },
        ],
      },
      {
        a: [
          { id: "y", on: false },
          { id: "x", on: true },
        ],
      },
      [{ path: "a[y].on", before: true, after: false }],
    ],
    [
      "each field of the first state",
      undefined,
      { a: { b: 1 }, c: null },
      [
        { path: "a.b", after: 1 },
        { path: "c", after: null },
      ],
    ],
    ["no changes of equal states", { a: [{ id: "x" }] }, { a: [{ id: "x" }] }, []],
    ["an object that replaces null", { a: null }, { a: { b: 1 } }, [{ path: "a", before: null, after: { b: 1 } }]],
    ["an item in a list that was empty", { a: [] }, { a: [{ id: "x" }] }, [{ path: "a[x].id", after: "x" }]],
  ];
  for (const [changeName, stateBefore, stateAfter, changes] of cases) {
    it(`findChanges reports ${changeName}`, () => {
      expect(findChanges(stateBefore, stateAfter)).to.deep.equal(changes);
    });
  }
});

describe("the state of a stream", () => {
  const { world, history, auditor } = useAuditWorld();

  const requestState = async (point: string) =>
    (await auditor.request(`/audit/v1/state?stream=${history.stream}&at=${encodeURIComponent(point)}`)).body;

  it("GET /audit/v1/state returns the same state that the command service loads", async () => {
    const { state: foldedState, last } = await requestState("end");
    expect(foldedState).to.deep.equal(
      (await loadAggregate(world.log, appointmentAggregate, history.appointmentId)).state,
    );
    expect(last).to.include({ revision: 2, type: "AppointmentCancelled" });
    const { body } = await auditor.request(`/audit/v1/state?stream=customer-${history.customerId}`);
    expect(body.state).to.deep.equal((await loadAggregate(world.log, customerAggregate, history.customerId)).state);
  });

  it("GET /audit/v1/state returns the state of a stream at a revision, a log position or a time", async () => {
    const statuses: [string, string | undefined][] = [
      ["start", undefined],
      ["0", "requested"],
      ["1", "confirmed"],
      ["99", "cancelled"],
      ["2026-05-04T07:59:59Z", undefined],
      ["2026-05-04T08:00:00Z", "requested"],
      ["2026-05-04T10:15:00+02:00", "confirmed"],
      ["2026-05-04T09:00:00Z", "cancelled"],
    ];
    for (const [at, status] of statuses) expect((await requestState(at)).state?.status, at).to.equal(status);
    const { lines } = await auditor.request(`/audit/v1/events?stream=${history.stream}`);
    expect((await requestState(`position:${lines[1].position}`)).state.status).to.equal("confirmed");
    expect((await requestState(`position:${BigInt(lines[1].position) - 1n}`)).state.status).to.equal("requested");
    const storedTimeResponse = await auditor.request(
      `/audit/v1/state?stream=${history.stream}&at=2026-05-05T00:00:00Z&by=stored`,
    );
    expect(storedTimeResponse.body).to.include({ state: null, last: null, ok: true });
  });

  it("GET /audit/v1/diff returns the fields that differ between two revisions of a stream", async () => {
    const { body } = await auditor.request(`/audit/v1/diff?stream=${history.stream}&from=0&to=1`);
    expect(body.changes).to.deep.equal([
      { path: "status", before: "requested", after: "confirmed" },
      { path: "updatedAt", before: "2026-05-04T08:00:00.000Z", after: "2026-05-04T08:10:00.000Z" },
    ]);
    expect([body.from.revision, body.to.revision]).to.deep.equal([0, 1]);
    const reverseChanges = (await auditor.request(`/audit/v1/diff?stream=${history.stream}&from=1&to=0`)).body.changes;
    expect(reverseChanges[0]).to.deep.equal({ path: "status", before: "confirmed", after: "requested" });
  });

  it("GET /audit/v1/replay returns the events of a stream, with the changes and the resulting state of each event", async () => {
    const { lines, end } = await auditor.request(`/audit/v1/replay?stream=${history.stream}`);
    expect(lines.map(({ event }) => event.revision)).to.deep.equal([0, 1, 2]);
    expect(lines[0].changes).to.deep.include({ path: "status", after: "requested" });
    expect(lines[2].changes[0]).to.deep.equal({ path: "status", before: "confirmed", after: "cancelled" });
    expect([lines[2].state.status, end.count]).to.deep.equal(["cancelled", 3]);
  });

  it("GET /audit/v1/replay with names is a list in pages of 500 events", async () => {
    const stream = `appointment-${randomUUID()}`;
    const event = () => jsonEvent({ type: "Sample", data: { clinicId: history.clinicId } });
    await world.client.appendToStream(stream, Array.from({ length: 501 }, event));
    const first = await auditor.request(`/audit/v1/replay?stream=${stream}&names=true`);
    expect([first.lines.length, first.end.next]).to.deep.equal([500, first.lines.at(-1).event.position]);
    const rest = await auditor.request(`/audit/v1/replay?stream=${stream}&names=true&after=${first.end.next}`);
    expect(rest.lines.map((step) => step.event.revision)).to.deep.equal([500]);
    expect(rest.end).not.to.have.property("next");
  });

  it("the audit API returns the state of streams of every category, and withholds secrets", async () => {
    for (const { name } of categories) {
      const fold = getFold(`${name}-${randomUUID()}`);
      expect(fold, name).to.be.a("function");
    }
    const { body } = await (await world.registerAuditor(null)).request(
      `/audit/v1/state?stream=auditor-${auditor.auditorId}`,
    );
    expect(body.state).to.include({ name: "Ada Audit", secretHash: "(withheld)", revoked: false });
  });

  describe("at the command line", () => {
    const runAudit = (args: string[], overrides: Partial<Terminal> = {}) =>
      runAuditCommand(args, { env: world.env, ...overrides });

    it("the commands `as-of` and `diff` print text, and `as-of --json` prints JSON", async () => {
      const args = ["as-of", history.stream, "--at", "1"];
      const { code, output: out } = await runAudit(args);
      expect(code).to.equal(0);
      expect(out).to.contain('"status": "confirmed"');
      expect(JSON.parse((await runAudit([...args, "--json"])).output).state.status).to.equal("confirmed");
      expect((await runAudit(["diff", history.stream, "--from", "0", "--to", "1"])).output).to.match(
        /changes:\n {2}PATH +BEFORE +AFTER\n {2}status +requested +confirmed/,
      );
    });

    it("the command `replay` prints one event per key press until the user presses q", async () => {
      const keys: ("next" | "end")[] = ["next", "end"];
      let pressCount = 0;
      const readKey = async () => keys[pressCount++] ?? "end";
      const steppedReplay = await runAudit(["replay", history.stream], { readKey });
      expect(steppedReplay.output.match(/^@ \d/gm)).to.deep.equal(["@ 0", "@ 1"]);
      expect([pressCount, steppedReplay.errorLines]).to.deep.equal([2, ["(Enter: next event; q: quit)"]]);
      const fullReplay = await runAudit(["replay", history.stream, "--all"], { readKey });
      expect([fullReplay.output.match(/^@ \d/gm)?.length, pressCount]).to.deep.equal([3, 2]);
      expect((await runAudit(["replay", history.stream])).output).to.equal(fullReplay.output);
    });
  });
});
