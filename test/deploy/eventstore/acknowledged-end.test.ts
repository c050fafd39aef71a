/** Tests of the file with the acknowledged end: damage, and data after the end. */
import { copyFile, readFile, rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import { createTemporaryDir } from "./log-process.ts";
import {
  appendEvents,
  changeAndRead,
  createAppendRequest,
  createLog,
  flipBit,
  getEndFilePath,
  getSegmentPath,
  getStartError,
  type LogContent,
  openStore,
  readContent,
  submit,
} from "./stored-log.ts";

describe("the acknowledged end of the embedded log", function () {
  this.timeout(120_000);
  let dir: string;
  let remove: () => Promise<void>;

  beforeEach(async () => {
    ({ dir, remove } = await createTemporaryDir());
  });
  afterEach(() => remove());

  it("a log does not start if the acknowledged end is damaged", async () => {
    await createLog(dir, 100);
    await flipBit(getEndFilePath(dir), 20);
    expect(await getStartError(dir)).to.include(`${getEndFilePath(dir)}: The file's checksum`);
  });

  describe("after the acknowledged end", () => {
    let acknowledgedContent: LogContent;
    let completeContent: LogContent;
    let endByte: number;
    let size: number;
    let bytes: Buffer;
    let lines: string[];

    /** Creates a log whose last write is on disk but is not yet recorded in the acknowledged end. */
    beforeEach(async () => {
      acknowledgedContent = await changeAndRead(dir, (store) => appendEvents(store, 50));
      endByte = (await stat(getSegmentPath(dir, 1))).size;
      await copyFile(getEndFilePath(dir), join(dir, "aside"));
      completeContent = await changeAndRead(dir, (store) =>
        submit(store, createAppendRequest("last", ["x".repeat(2_000), "y".repeat(2_000)])),
      );
      await rename(join(dir, "aside"), getEndFilePath(dir));
      bytes = await readFile(getSegmentPath(dir, 1));
      size = bytes.length;
      lines = [];
    });

    async function startAndRead() {
      const store = await openStore(dir, { printLine: (line) => lines.push(line) });
      const content = await readContent(store);
      await submit(store, createAppendRequest("note-1", ["goes on"]));
      await store.close();
      await (await openStore(dir)).close();
      return content;
    }

    it("a starting log keeps a complete write that is not recorded as acknowledged", async () => {
      expect(await startAndRead()).to.deep.equal(completeContent);
      expect(lines).to.deep.equal([]);
    });

    it("a starting log drops and reports an incomplete last write, wherever the write was cut off", async () => {
      for (const length of [endByte + 1, endByte + 39, endByte + 40, endByte + 41, endByte + 2_200, size - 1]) {
        await writeFile(getSegmentPath(dir, 1), bytes.subarray(0, length));
        const endFileBytes = await readFile(getEndFilePath(dir));
        lines = [];
        expect(await startAndRead(), `cut at ${length}`).to.deep.equal(acknowledgedContent);
        expect(lines).to.have.length(1);
        expect(lines[0]).to.match(/dropped \d+ bytes at offset \d+, after position \d+/);
        await writeFile(getEndFilePath(dir), endFileBytes);
      }
    });

    it("a starting log drops an unacknowledged write that ends with zeros, as after a power loss", async () => {
      for (const zeroByteCount of [size - endByte, size - endByte - 40, 3_000, 600]) {
        const writtenBytes = Buffer.from(bytes).fill(0, size - zeroByteCount);
        await writeFile(getSegmentPath(dir, 1), writtenBytes);
        const endFileBytes = await readFile(getEndFilePath(dir));
        expect(await startAndRead(), `${zeroByteCount} zeros`).to.deep.equal(acknowledgedContent);
        await writeFile(getEndFilePath(dir), endFileBytes);
      }
    });

    it("a log does not start if a complete write after the acknowledged end is damaged", async () => {
      await flipBit(getSegmentPath(dir, 1), endByte + 500);
      expect(await getStartError(dir)).to.include(`offset ${endByte}`);
    });
  });
});
