import { expect } from "chai";
import { createSlotLimiter } from "../../../command/audit/http/scan-slots.ts";

describe("the slots for scans", () => {
  /** Takes slots for auditors with the given clinics. Returns true for each auditor who got a slot. */
  const takeSlots = (...auditors: [id: string, clinicIds: string[] | null][]) => {
    const takeSlot = createSlotLimiter({ total: 4, perHolder: 2 });
    return auditors.map(([id, clinicIds]) => {
      try {
        takeSlot({ id, clinicIds });
        return true;
      } catch {
        return false;
      }
    });
  };

  it("an auditor gets at most half of the slots", () => {
    expect(takeSlots(["a", null], ["a", null], ["a", null])).to.deep.equal([true, true, false]);
  });

  it("all auditors of a clinic together get at most half of the slots", () => {
    const auditors: [string, string[]][] = [
      ["a", ["x", "x"]],
      ["b", ["x", "y"]],
      ["c", ["x"]],
    ];
    expect(takeSlots(...auditors)).to.deep.equal([true, true, false]);
  });

  it("the last slot is kept for an auditor who has none", () => {
    const outcomes = takeSlots(["a", null], ["b", ["x"]], ["a", null], ["b", ["x"]], ["c", ["x"]], ["d", ["y"]]);
    expect(outcomes).to.deep.equal([true, true, true, false, false, true]);
  });

  it("a released slot is free again, and is released only once", () => {
    const takeSlot = createSlotLimiter({ total: 1, perHolder: 1 });
    const auditor = { id: "a", clinicIds: ["x"] };
    const release = takeSlot(auditor);
    release();
    release();
    takeSlot(auditor);
    expect(() => takeSlot({ id: "b", clinicIds: null }))
      .to.throw()
      .with.property("code", "too_many_scans");
  });
});
