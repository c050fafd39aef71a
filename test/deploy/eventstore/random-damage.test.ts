/** Random damage of files. The log either reports the damage or returns exactly the acknowledged events. */
import { truncate, writeFile } from "node:fs/promises";
import { expect } from "chai";
import { LogDamagedError, LogStartError } from "../../../deploy/local/eventstore/model/log-errors.ts";
import type { Store } from "../../../deploy/local/eventstore/store/store.ts";
import { createTemporaryDir } from "./log-process.ts";
import { appendEvents, type LogContent, openStore, readContent, readFiles } from "./stored-log.ts";

const EVENT_COUNT = 400;
/** Segment size in bytes. It is small, so that the log has several segments. */
const SEGMENT_BYTES = 24 * 1024;
const START_TRIALS = 2_000;
const READ_TRIALS = 250;
const SEED = Number(process.env.LOG_DAMAGE_SEED ?? Math.floor(Math.random() * 2 ** 31));

/** Creates a generator of pseudo-random numbers from 0 to below 1 (Mulberry32). Equal seeds produce equal numbers. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Damages a copy of the files: flips 1 to 5 bits, truncates a file, or both. Returns the damaged files. */
function createDamage(files: ReadonlyMap<string, Buffer>, random: () => number): Map<string, Buffer> {
  const below = (end: number) => Math.floor(random() * end);
  const paths = [...files.keys()];
  const damaged = new Map<string, Buffer>();
  const take = () => {
    const path = paths[below(paths.length)] ?? "";
    return { path, bytes: damaged.get(path) ?? Buffer.from(files.get(path) ?? []) };
  };
  const kind = below(3);
  if (kind !== 1) {
    for (let left = 1 + below(5); left > 0; left -= 1) {
      const { path, bytes } = take();
      const at = below(bytes.length);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << below(8));
      damaged.set(path, bytes);
    }
  }
  if (kind !== 0) {
    const { path, bytes } = take();
    damaged.set(path, bytes.subarray(0, below(bytes.length)));
  }
  return damaged;
}

/** Overwrites files in place, so that an open log reads the new content. */
async function overwriteFiles(files: ReadonlyMap<string, Buffer>): Promise<void> {
  for (const [path, bytes] of files) {
    await writeFile(path, bytes, { flag: "r+" });
    await truncate(path, bytes.length);
  }
}

/** Restores the damaged files and the file of the acknowledged end, which a starting log may have rewritten. */
async function restoreFiles(files: ReadonlyMap<string, Buffer>, damaged: ReadonlyMap<string, Buffer>): Promise<void> {
  const changed = [...files].filter(([path]) => damaged.has(path) || path.endsWith("acknowledged"));
  await overwriteFiles(new Map(changed));
}

/** Returns the content that was read, or "refused" if the log reports damage. Throws all other errors. */
async function readContentOrRefusal(read: () => Promise<LogContent>): Promise<LogContent | "refused"> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof LogDamagedError) && !(error instanceof LogStartError)) throw error;
    expect(error.message, "one line").not.to.include("\n");
    return "refused";
  }
}

async function openAndRead(dir: string): Promise<LogContent> {
  const store = await openStore(dir);
  try {
    return await readContent(store);
  } finally {
    await store.close();
  }
}

describe("random damage of the embedded log's files", function () {
  this.timeout(300_000);
  let dir: string;
  let remove: () => Promise<void>;
  let acknowledged: LogContent;
  let files: Map<string, Buffer>;

  before(async () => {
    ({ dir, remove } = await createTemporaryDir());
    const store = await openStore(dir, { segmentBytes: SEGMENT_BYTES });
    await appendEvents(store, EVENT_COUNT);
    acknowledged = await readContent(store);
    await store.close();
    files = await readFiles(dir);
    expect(acknowledged.forwards).to.have.length(EVENT_COUNT);
    expect(files.size, "several segments").to.be.at.least(6);
  });
  after(() => remove());

  it(`a randomly damaged log either refuses to start or contains all acknowledged events (seed ${SEED})`, async () => {
    const random = createRandom(SEED);
    let refused = 0;
    for (let trial = 0; trial < START_TRIALS; trial += 1) {
      const damaged = createDamage(files, random);
      await overwriteFiles(damaged);
      const content = await readContentOrRefusal(() => openAndRead(dir));
      if (content === "refused") refused += 1;
      else expect(content, `seed ${SEED}, trial ${trial}`).to.deep.equal(acknowledged);
      await restoreFiles(files, damaged);
    }
    expect(refused).to.be.within(START_TRIALS / 2, START_TRIALS - 1);
    expect(await openAndRead(dir)).to.deep.equal(acknowledged);
  });

  it(`a read of a running log with random damage fails or returns all acknowledged events (seed ${SEED})`, async () => {
    const random = createRandom(SEED + 1);
    const store: Store = await openStore(dir);
    let refused = 0;
    for (let trial = 0; trial < READ_TRIALS; trial += 1) {
      const damaged = createDamage(files, random);
      await overwriteFiles(damaged);
      const content = await readContentOrRefusal(() => readContent(store));
      if (content === "refused") refused += 1;
      else expect(content, `seed ${SEED}, trial ${trial}`).to.deep.equal(acknowledged);
      await restoreFiles(files, damaged);
    }
    expect(refused).to.be.at.least(READ_TRIALS / 2);
    expect(await readContent(store)).to.deep.equal(acknowledged);
    await store.close();
  });
});
