import { randomUUID } from "node:crypto";
import fs from "node:fs/promises";
import path from "node:path";
import { LogUnavailableError } from "../../../shared/eventstore/log.ts";
import { pause } from "../../../shared/runtime/backoff.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { readStreamEvents } from "../log/read-stream.ts";
import { formatCheckpoint, formatVerifierKey } from "./checkpoint.ts";
import { readLeaves } from "./leaves.ts";
import type { PublishOptions } from "./publish-tree-head.ts";
import {
  createChangedLogError,
  type PublishedHead,
  readLastHead,
  requireSignedHead,
  TREE_HEAD_STREAM,
  TreeHeadError,
} from "./published-heads.ts";
import {
  countHashes,
  joinHashes,
  TILE_WIDTH,
  TiledTree,
  TileError,
  toCheckpointFile,
  toPositionsFile,
  toTileFile,
  toTreeFolder,
} from "./tiled-tree.ts";
import type { SignedTreeHead } from "./tree-head.ts";

type TileOptions = Pick<PublishOptions, "client" | "signer" | "signal" | "onProgress"> & { directory: string };
type HeadData = Pick<PublishedHead["data"], "treeId" | "size" | "logPosition" | "signature">;

/**
 * Adds the leaves up to the last published tree head to the tiles, and writes its checkpoint. Continues from the last
 * published tree head whose root the tiles contain. After a restore of an older log, it thus replaces the lost leaves. All
 * processes write the same bytes for a log, so several can write at once.
 *
 * @param startRevision revision of the first tree head to consider, in the stream of tree heads
 * @returns revision of the last tree head
 * @throws {TreeHeadError} if the log does not contain the events of a tree head
 * @throws {LogUnavailableError}
 */
export async function writeTiles(options: TileOptions, startRevision = 0n): Promise<bigint> {
  const { directory, client, signer, signal, onProgress } = options;
  const { lastHead } = await readLastHead(client);
  if (!lastHead) return 0n;
  const folder = toTreeFolder(directory, lastHead.data.treeId);
  const heads = await readHeads(options, lastHead, startRevision);
  const tree = await TiledTree.open(folder);
  const startIndex = tree ? await findContainedHead(heads, tree, options) : -1;
  if (startIndex === -1 && startRevision > 0n) return writeTiles(options);
  await fs.mkdir(folder, { recursive: true });
  const start = heads[startIndex];
  const edge = await TileEdge.open(folder, tree, start?.size ?? 0);
  let startAfter = start && BigInt(start.logPosition);
  try {
    for (const head of heads.slice(startIndex + 1)) {
      const isLast = head === heads.at(-1);
      const signedHead = await (isLast ? requireSignedHead(head, signer.getTrustedKey) : findSignedHead(head, options));
      if (!signedHead) continue;
      const { treeHead } = signedHead;
      const endPosition = BigInt(head.logPosition);
      for await (const { hash, event } of readLeaves({ client, startAfter, endPosition, signal, onProgress }))
        await edge.append(hash, BigInt(event.position));
      if (signal.aborted) break;
      await edge.writePartialTiles();
      const root =
        edge.size === head.size ? await new TiledTree(folder, head.size).computeRoot(0, head.size) : undefined;
      if (root?.toString("hex") !== treeHead.root) throw createChangedLogError(treeHead);
      // The checkpoint is written last, because it says which tiles are complete.
      await writeFile(folder, path.join(folder, "vkey"), `${formatVerifierKey(head.treeId, signer)}\n`);
      await writeFile(folder, toCheckpointFile(folder), await formatCheckpoint(treeHead, signer));
      startAfter = endPosition;
    }
  } finally {
    await edge.close();
  }
  return lastHead.revision;
}

/** Reads the heads of the last tree, without the peaks, so that the heads of years need little memory. */
async function readHeads({ client }: TileOptions, last: PublishedHead, startRevision: bigint): Promise<HeadData[]> {
  const heads: HeadData[] = [];
  for await (const { catalogEvent } of readStreamEvents(client, TREE_HEAD_STREAM, startRevision)) {
    if (catalogEvent?.type !== "TreeHeadPublished" || catalogEvent.data.treeId !== last.data.treeId) continue;
    const { treeId, size, logPosition, signature } = catalogEvent.data;
    if (size <= last.data.size) heads.push({ treeId, size, logPosition, signature });
  }
  return heads;
}

/** Verifies a head. Returns undefined if no current key has signed it. A later head then verifies the same leaves. */
async function findSignedHead(head: HeadData, { signer }: TileOptions): Promise<SignedTreeHead | undefined> {
  try {
    return await requireSignedHead(head, signer.getTrustedKey);
  } catch (error) {
    if (error instanceof TreeHeadError) return undefined;
    throw error;
  }
}

/** Finds the last head whose root the tiles contain. Returns -1 if there is none. */
async function findContainedHead(heads: HeadData[], tree: TiledTree, options: TileOptions): Promise<number> {
  for (let index = heads.length - 1; index >= 0; index -= 1) {
    const head = heads[index] as HeadData;
    if (head.size > tree.size) continue;
    const signedHead = await findSignedHead(head, options);
    const root = await tree.computeRoot(0, head.size).catch((error) => {
      if (!(error instanceof TileError)) throw error;
    });
    if (signedHead && root?.toString("hex") === signedHead.treeHead.root) return index;
  }
  return -1;
}

/** The last tile of each level, to which hashes are added. */
export class TileEdge {
  size: number;
  readonly #folder: string;
  readonly #levels: Buffer[][];
  readonly #positions: fs.FileHandle;

  private constructor(folder: string, size: number, levels: Buffer[][], positions: fs.FileHandle) {
    this.#folder = folder;
    this.size = size;
    this.#levels = levels;
    this.#positions = positions;
  }

  static async open(folder: string, tree: TiledTree | undefined, size: number): Promise<TileEdge> {
    const levels: Buffer[][] = [];
    for (let level = 0; tree && countHashes(size, level) > 0; level += 1) {
      const count = countHashes(size, level);
      const width = count % TILE_WIDTH;
      levels.push(width === 0 ? [] : (await tree.readTile(level, Math.floor(count / TILE_WIDTH))).slice(0, width));
    }
    // The flags create the file without truncating it.
    const flags = fs.constants.O_RDWR | fs.constants.O_CREAT;
    return new TileEdge(folder, size, levels, await fs.open(toPositionsFile(folder), flags));
  }

  async append(leafHash: Buffer, position: bigint): Promise<void> {
    if (this.size % TILE_WIDTH === 0) {
      const bytes = Buffer.alloc(8);
      bytes.writeBigUInt64BE(position);
      await this.#positions.write(bytes, 0, bytes.length, (this.size / TILE_WIDTH) * bytes.length);
    }
    this.size += 1;
    for (let [level, hash] = [0, leafHash]; ; level += 1) {
      this.#levels[level] ??= [];
      const tile = this.#levels[level] as Buffer[];
      tile.push(hash);
      if (tile.length < TILE_WIDTH) return;
      const file = toTileFile(this.#folder, level, countHashes(this.size, level + 1) - 1);
      await this.#write(file, Buffer.concat(tile));
      // If another process writes a partial tile at this moment, the folder remains.
      await fs.rm(`${file}.p`, { recursive: true, force: true }).catch(ignoreCode("ENOTEMPTY"));
      hash = joinHashes(tile);
      this.#levels[level] = [];
    }
  }

  async writePartialTiles(): Promise<void> {
    for (const [level, tile] of this.#levels.entries()) {
      if (tile.length === 0) continue;
      const number = countHashes(this.size, level + 1);
      await this.#write(toTileFile(this.#folder, level, number, tile.length), Buffer.concat(tile));
    }
    await this.#positions.datasync();
  }

  #write(file: string, content: Buffer): Promise<void> {
    return writeFile(this.#folder, file, content);
  }

  close(): Promise<void> {
    return this.#positions.close();
  }
}

/** Writes a file under a temporary name and renames it, so that readers and crashes never leave a part of it. */
async function writeFile(folder: string, file: string, content: string | Uint8Array): Promise<void> {
  const partFile = path.join(folder, `.part-${randomUUID()}`);
  await fs.writeFile(partFile, content, { flush: true });
  for (let isRenamed = false; !isRenamed; ) {
    await fs.mkdir(path.dirname(file), { recursive: true });
    // Another process can remove the folder of a partial tile between the two calls.
    isRenamed = (await fs.rename(partFile, file).then(() => true, ignoreCode("ENOENT"))) ?? false;
  }
}

function ignoreCode(code: string): (error: NodeJS.ErrnoException) => undefined {
  return (error) => {
    if (error.code !== code) throw error;
  };
}

const MAX_CHECK_INTERVAL_MS = 60_000;

/** Keeps the tiles up to date with the published tree heads, until the signal aborts. Writes errors to the log. */
export async function runTileWriter(
  options: TileOptions & { logger: Logger; intervalMs: number },
  signal: AbortSignal,
): Promise<void> {
  const { logger, intervalMs } = options;
  let revision = 0n;
  for (;;) {
    try {
      revision = await writeTiles({ ...options, signal }, revision);
    } catch (error) {
      revision = 0n;
      if (signal.aborted) return;
      if (error instanceof LogUnavailableError) logger.warn({ error }, "hash tiles not written: the event log failed");
      else logger.error({ error }, "hash tiles not written");
    }
    await pause(Math.min(intervalMs, MAX_CHECK_INTERVAL_MS), signal);
    if (signal.aborted) return;
  }
}
