/**
 * Preload module that simulates a failed flush of one file (LOSSY_FILE). A second file (LOSSY_DISK) contains only what
 * has reached the disk: each flush copies the writes since the previous flush. Flush number LOSSY_FLUSH fails. As on
 * Linux, the next flush then does not write the lost data again, although reads of the file still return it.
 */
import fs from "node:fs";
import { promisify } from "node:util";

const { LOSSY_FILE, LOSSY_DISK, LOSSY_FLUSH } = process.env;
const write = promisify(fs.write);
const { fdatasync } = fs;
const isLossy = (fd) => fs.readlinkSync(`/proc/self/fd/${fd}`) === LOSSY_FILE;
let unflushedWrites = [];
let flushCount = 0;

fs.write = Object.assign(() => undefined, {
  [promisify.custom]: async (fd, buffer, offset, length, position) => {
    if (isLossy(fd)) {
      if (!fs.existsSync(LOSSY_DISK)) fs.copyFileSync(LOSSY_FILE, LOSSY_DISK);
      unflushedWrites.push({ bytes: Buffer.from(buffer.subarray(offset, offset + length)), position });
    }
    return write(fd, buffer, offset, length, position);
  },
});

fs.fdatasync = (fd, callback) => {
  if (!isLossy(fd)) return fdatasync(fd, callback);
  const flushedWrites = unflushedWrites;
  unflushedWrites = [];
  flushCount += 1;
  if (flushCount === Number(LOSSY_FLUSH))
    return callback(Object.assign(new Error("EIO: i/o error, fdatasync"), { code: "EIO" }));
  if (flushedWrites.length > 0) {
    const disk = fs.openSync(LOSSY_DISK, "r+");
    for (const { bytes, position } of flushedWrites) fs.writeSync(disk, bytes, 0, bytes.length, position);
    fs.closeSync(disk);
  }
  fdatasync(fd, callback);
};
