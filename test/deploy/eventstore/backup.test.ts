/** Backs up a running log with the commands from the README of the embedded log. */
import { join } from "node:path";
import { expect } from "chai";
import { backUpLog } from "../../support/backups.ts";
import { createTemporaryDir } from "./log-process.ts";
import { createAppendRequest, openStore, readContent, submit } from "./stored-log.ts";

describe("a backup of the running embedded log", function () {
  this.timeout(120_000);

  it("a backup of a running log opens and contains all events that were acknowledged before the backup began", async () => {
    const { dir, remove } = await createTemporaryDir();
    const store = await openStore(join(dir, "log"));
    let isWriting = true;
    let acknowledgedCount = 0;
    const write = async (writerNumber: number) => {
      while (isWriting) {
        const { outcome } = await submit(store, createAppendRequest(`note-${writerNumber}`, ["x".repeat(1_000)]));
        expect(outcome).to.equal("written");
        acknowledgedCount += 1;
      }
    };
    const writePromises = Array.from({ length: 8 }, (_, writerNumber) => write(writerNumber));
    for (let round = 0; round < 5; round += 1) {
      const countBefore = acknowledgedCount;
      const copyDir = join(dir, `copy-${round}`);
      await backUpLog(join(dir, "log"), copyDir);
      const restoredStore = await openStore(copyDir);
      const { forwardEvents } = await readContent(restoredStore);
      await restoredStore.close();
      expect(forwardEvents.length).to.be.at.least(countBefore);
      const originalEvents = (await readContent(store)).forwardEvents;
      expect(forwardEvents).to.deep.equal(originalEvents.slice(0, forwardEvents.length));
    }
    isWriting = false;
    await Promise.all(writePromises);
    expect(store.log.segments.count).to.be.greaterThan(1);
    await store.close();
    await remove();
  });
});
