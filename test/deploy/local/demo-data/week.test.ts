import { expect } from "chai";
import { createCachingEventLog } from "../../../../command/cli/import/caching-log.ts";
import { demoClinics } from "../../../../deploy/local/demo-data/clinics.ts";
import { buildPhases } from "../../../../deploy/local/demo-data/demo-data.ts";
import { runSteps } from "../../../../deploy/local/demo-data/steps.ts";
import { createWeekAppointments } from "../../../../deploy/local/demo-data/week.ts";
import { appointmentStatuses } from "../../../../shared/domain/appointment/appointment.ts";
import { addDays, fromLocalTime, toLocalDate } from "../../../../shared/domain/time/local-time.ts";

describe("the demo week", () => {
  const hourTimes = Array.from({ length: 24 }, (_, hour) => Date.parse("2026-10-25T00:07:00Z") + hour * 3_600_000);

  it("at any hour, the demo week contains every appointment status and a queue for today", () => {
    for (const now of hourTimes) {
      for (const clinic of demoClinics) {
        const weekAppointments = createWeekAppointments(clinic, now);
        expect(new Set(weekAppointments.map(({ status }) => status))).to.deep.equal(new Set(appointmentStatuses));
        const todayAppointments = weekAppointments.filter(({ date }) => date === toLocalDate(clinic.timezone, now));
        for (const { id } of clinic.branches) {
          const statuses = todayAppointments.filter(({ branchId }) => branchId === id).map(({ status }) => status);
          expect(statuses).to.include.members(["in_consultation", "waiting", "checked_in"]);
        }
      }
    }
  });

  it("the domain accepts all steps of the demo data at any hour, and the demo week is deterministic", async () => {
    const emptyLog = {
      read: async () => [],
      readLast: async () => undefined,
      append: () => Promise.reject(new Error("must not be written")),
    };
    for (const now of [0, 9, 17].map((hour) => hourTimes[hour] as number)) {
      let [doneCount, stepCount] = [0, 0];
      await runSteps(createCachingEventLog(emptyLog, "kept"), buildPhases(now), (count, total) => {
        [doneCount, stepCount] = [count, total];
      });
      expect(doneCount).to.equal(stepCount);
      const names = buildPhases(now)
        .flat(2)
        .map(({ name }) => name);
      expect(new Set(names).size, "number of distinct step names").to.equal(names.length);
    }
    const createWeeks = () => demoClinics.flatMap((clinic) => createWeekAppointments(clinic, hourTimes[3] as number));
    expect(createWeeks()).to.deep.equal(createWeeks());
  });
});

describe("times of the demo data", () => {
  const cases = [
    ["Europe/Berlin", "2026-10-25", "08:30", "2026-10-25T07:30:00.000Z"],
    ["Europe/Berlin", "2026-10-24", "08:30", "2026-10-24T06:30:00.000Z"],
    ["Australia/Sydney", "2026-10-04", "08:30", "2026-10-03T21:30:00.000Z"],
    ["America/Mexico_City", "2026-07-01", "16:30", "2026-07-01T22:30:00.000Z"],
  ] as const;
  for (const [zone, date, time, instant] of cases) {
    it(`the local time ${time} on ${date} in ${zone} is converted to ${instant} and back`, () => {
      expect(new Date(fromLocalTime(zone, date, time)).toISOString()).to.equal(instant);
      expect(toLocalDate(zone, Date.parse(instant))).to.equal(date);
    });
  }
  it("addDays handles the ends of months and years", () => {
    expect(addDays("2028-02-28", 2)).to.equal("2028-03-01");
    expect(addDays("2026-01-01", -1)).to.equal("2025-12-31");
  });
});
