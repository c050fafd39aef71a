import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "chai";
import { type LeadershipOptions, withLeadership } from "../../../shared/postgres/leadership.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { getTestServers, makeTestRoot } from "../../support/stack.ts";

/**
 * Interval at which a standby process checks for a leader. Longer than the test, so that only a notification makes it
 * take over. Milliseconds.
 */
const STANDBY_INTERVAL_MS = 600_000;

describe("leadership", () => {
  it("a leader that stops hands over to a standby process at once", async () => {
    const { databaseUrls } = await getTestServers();
    const [firstController, secondController] = [new AbortController(), new AbortController()];
    const [terms, standby] = [new EventTarget(), new EventTarget()];
    const compete = (name: string, { signal }: AbortController) => {
      const options: LeadershipOptions = {
        name: "handover",
        databaseUrl: databaseUrls.projection,
        logger: createLogger("test", "silent"),
        signal,
        onStandby: () => standby.dispatchEvent(new Event(name)),
        standbyIntervalMs: STANDBY_INTERVAL_MS,
      };
      return withLeadership(options, async (termSignal) => {
        terms.dispatchEvent(new Event(name));
        await once(termSignal, "abort");
      });
    };
    const [firstLeads, secondStandsBy, secondLeads] = [
      once(terms, "first"),
      once(standby, "second"),
      once(terms, "second"),
    ];
    const firstEnd = compete("first", firstController);
    await firstLeads;
    const secondEnd = compete("second", secondController);
    await secondStandsBy;
    firstController.abort();
    await firstEnd;
    expect(await secondLeads).to.have.lengthOf(1);
    secondController.abort();
    await secondEnd;
  });

  it("a process whose certificate file cannot be read waits, and reads the file again", async () => {
    const { databaseUrls } = await getTestServers();
    const certificateFile = path.join(makeTestRoot(), "ca.pem");
    const controller = new AbortController();
    const events = new EventTarget();
    const options: LeadershipOptions = {
      name: "certificate",
      logger: createLogger("test", "silent"),
      signal: controller.signal,
      databaseUrl: `${databaseUrls.projection}?sslmode=disable&sslrootcert=${certificateFile}`,
      onStandby: (reason) => events.dispatchEvent(new Event(reason)),
    };
    const [isWaiting, isLeading] = [once(events, "waits for the database"), once(events, "leads")];
    const end = withLeadership(options, async (termSignal) => {
      events.dispatchEvent(new Event("leads"));
      await once(termSignal, "abort");
    });
    await Promise.race([isWaiting, end]);
    await writeFile(certificateFile, "");
    await Promise.race([isLeading, end]);
    controller.abort();
    await end;
  });
});
