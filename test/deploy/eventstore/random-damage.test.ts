/** Random damage of files. The log either reports the damage or returns exactly the acknowledged events. */
import { truncate, writeFile } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import { expect } from "chai";
import { LogDamagedError, LogStartError } from "../../../deploy/local/eventstore/model/log-errors.ts";
import type { Store } from "../../../deploy/local/eventstore/store/store.ts";
import { makeTemporaryDir } from "./log-process.ts";
import { appendEvents, type LogContent, openStore, readContent, readFiles } from "./stored-log.ts";

const EVENT_COUNT = 400;
const START_TRIAL_COUNT = 500;
const READ_TRIAL_COUNT = 250;
const SEED = Number(process.env.LOG_DAMAGE_SEED ?? Math.floor(Math.random() * 2 ** 31));

/** Creates a generator of pseudo-random numbers from 0 to below 1 (Mulberry32). Equal seeds produce equal numbers. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Damages a copy of the files: flips 1 to 5 bits, truncates a file, or both. Returns the damaged files. */
function createDamage(files: ReadonlyMap<string, Buffer>, random: () => number): Map<string, Buffer> {
  const pickBelow = (limit: number) => Math.floor(random() * limit);
  const paths = [...files.keys()];
  const damagedFiles = new Map<string, Buffer>();
  const pickFile = () => {
    const path = paths[pickBelow(paths.length)] ?? "";
    return { path, bytes: damagedFiles.get(path) ?? Buffer.from(files.get(path) ?? []) };
  };
  const kind = pickBelow(3);
  if (kind !== 1) {
    for (let flipsLeft = 1 + pickBelow(5); flipsLeft > 0; flipsLeft -= 1) {
      const { path, bytes } = pickFile();
      const offset = pickBelow(bytes.length);
      bytes[offset] = (bytes[offset] ?? 0) ^ (1 << pickBelow(8));
      damagedFiles.set(path, bytes);
    }
  }
  if (kind !== 0) {
    const { path, bytes } = pickFile();
    damagedFiles.set(path, bytes.subarray(0, pickBelow(bytes.length)));
  }
  return damagedFiles;
}

/** Overwrites files in place, so that an open log reads the new content. */
async function overwriteFiles(files: ReadonlyMap<string, Buffer>): Promise<void> {
  for (const [path, bytes] of files) {
    await writeFile(path, bytes, { flag: "r+" });
    await truncate(path, bytes.length);
  }
}

/** Restores the damaged files and the file of the acknowledged end, which a starting log may have rewritten. */
async function restoreFiles(
  files: ReadonlyMap<string, Buffer>,
  damagedFiles: ReadonlyMap<string, Buffer>,
): Promise<void> {
  const changedFiles = [...files].filter(([path]) => damagedFiles.has(path) || path.endsWith("acknowledged"));
  await overwriteFiles(new Map(changedFiles));
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
  let acknowledgedContent: LogContent;
  let files: Map<string, Buffer>;

  before(async () => {
    dir = makeTemporaryDir();
    const store = await openStore(dir);
    await appendEvents(store, EVENT_COUNT);
    acknowledgedContent = await readContent(store);
    await store.close();
    files = await readFiles(dir);
    expect(acknowledgedContent.forwardEvents).to.have.length(EVENT_COUNT);
  });

  /** Chai compares more slowly, so it only describes a difference. */
  const expectAcknowledgedContent = (content: LogContent, trial: number) => {
    if (isDeepStrictEqual(content, acknowledgedContent)) return;
    expect(content, `seed ${SEED}, trial ${trial}`).to.deep.equal(acknowledgedContent);
  };

  it(`a randomly damaged log either refuses to start or contains all acknowledged events (seed ${SEED})`, async () => {
    const random = createRandom(SEED);
    let refusalCount = 0;
    for (let trial = 0; trial < START_TRIAL_COUNT; trial += 1) {
      const damagedFiles = createDamage(files, random);
      await overwriteFiles(damagedFiles);
      const content = await readContentOrRefusal(() => openAndRead(dir));
      if (content === "refused") refusalCount += 1;
      else expectAcknowledgedContent(content, trial);
      await restoreFiles(files, damagedFiles);
    }
    expect(refusalCount).to.be.at.least(START_TRIAL_COUNT / 2);
    expect(await openAndRead(dir)).to.deep.equal(acknowledgedContent);
  });

  it(`a read of a running log with random damage fails or returns all acknowledged events (seed ${SEED})`, async () => {
    const random = createRandom(SEED + 1);
    const store: Store = await openStore(dir);
    let refusalCount = 0;
    for (let trial = 0; trial < READ_TRIAL_COUNT; trial += 1) {
      const damagedFiles = createDamage(files, random);
      await overwriteFiles(damagedFiles);
      const content = await readContentOrRefusal(() => readContent(store));
      if (content === "refused") refusalCount += 1;
      else expectAcknowledgedContent(content, trial);
      await restoreFiles(files, damagedFiles);
    }
    expect(refusalCount).to.be.at.least(READ_TRIAL_COUNT / 2);
    expect(await readContent(store)).to.deep.equal(acknowledgedContent);
    await store.close();
  });
});
