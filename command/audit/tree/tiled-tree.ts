import fs from "node:fs/promises";
import path from "node:path";
import { readCheckpointSize } from "./checkpoint.ts";
import { hashNode } from "./merkle-tree.ts";

/** Number of hashes in a full tile. A hash of a tile's parent covers one full tile. */
export const TILE_WIDTH = 256;
const TILE_HEIGHT = 8;
const HASH_BYTES = 32;
const POSITION_BYTES = 8;

/** A tile cannot be read. The message names the file. */
export class TileError extends Error {
  override readonly name = "TileError";
}

/** Returns the folder with the tiles of a tree. A copy of the log has a new tree, so its tiles never mix with these. */
export const toTreeFolder = (directory: string, treeId: string) => path.join(directory, treeId);

/** File with the log positions of the first leaf of each tile of level 0: 8 bytes each, big-endian. */
export const toPositionsFile = (folder: string) => path.join(folder, "positions");

export const toCheckpointFile = (folder: string) => path.join(folder, "checkpoint");

/**
 * Returns the file of a tile (C2SP tlog-tiles).
 *
 * @param width number of hashes; a tile with fewer than {@link TILE_WIDTH} is partial
 */
export function toTileFile(folder: string, level: number, number: number, width = TILE_WIDTH): string {
  const groups = String(number)
    .padStart(Math.ceil(String(number).length / 3) * 3, "0")
    .match(/\d{3}/g) as string[];
  const name = groups.map((group, index) => (index < groups.length - 1 ? `x${group}` : group)).join("/");
  return path.join(folder, "tile", String(level), width === TILE_WIDTH ? name : `${name}.p/${width}`);
}

/** Returns the number of complete subtrees of a tile level in a tree. Each is one hash in the tiles of this level. */
export function countHashes(size: number, level: number): number {
  return Math.floor(size / TILE_WIDTH ** level);
}

/** Returns the hash of a complete subtree from the hashes of its children at some level; their number is a power of 2. */
export function joinHashes(hashes: readonly Buffer[]): Buffer {
  const [first, ...others] = hashes;
  if (!first) throw new RangeError("a subtree has at least one hash");
  if (others.length === 0) return first;
  const half = hashes.length / 2;
  return hashNode(joinHashes(hashes.slice(0, half)), joinHashes(hashes.slice(half)));
}

/**
 * Reads the hashes of a tree from its tiles. It does not verify them, so the caller must compare each root with the root
 * in a signed tree head. All methods throw a {@link TileError} if a tile cannot be read.
 */
export class TiledTree {
  readonly folder: string;
  /** Number of leaves that the tiles contain. */
  readonly size: number;
  readonly #tiles = new Map<string, Promise<Buffer[]>>();

  constructor(folder: string, size: number) {
    this.folder = folder;
    this.size = size;
  }

  /** Opens the tiles of a folder. Returns undefined if there are none. */
  static async open(folder: string): Promise<TiledTree | undefined> {
    const checkpoint = await fs.readFile(toCheckpointFile(folder), "utf8").catch(toTileError);
    const size = checkpoint === undefined ? undefined : readCheckpointSize(checkpoint);
    return size === undefined ? undefined : new TiledTree(folder, size);
  }

  /** Number of tiles that were read. */
  get tileCount(): number {
    return this.#tiles.size;
  }

  readTile(level: number, number: number): Promise<Buffer[]> {
    const key = `${level}/${number}`;
    const tile = this.#tiles.get(key) ?? this.#readTile(level, number);
    this.#tiles.set(key, tile);
    return tile;
  }

  async #readTile(level: number, number: number): Promise<Buffer[]> {
    const width = Math.min(TILE_WIDTH, countHashes(this.size, level) - number * TILE_WIDTH);
    // A partial tile is removed after the tile is full. The full tile starts with the same hashes.
    for (const file of new Set(
      [width, TILE_WIDTH].map((fileWidth) => toTileFile(this.folder, level, number, fileWidth)),
    )) {
      const bytes = await fs.readFile(file).catch(toTileError);
      if (bytes === undefined) continue;
      if (bytes.length < width * HASH_BYTES) throw new TileError(`${file} is truncated`);
      return Array.from({ length: width }, (_, index) => bytes.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES));
    }
    throw new TileError(`${toTileFile(this.folder, level, number)} is missing`);
  }

  /** Computes the root hash of the leaves from `start` to `end`, which is exclusive (`MTH` in RFC 6962, section 2.1). */
  async computeRoot(start: number, end: number): Promise<Buffer> {
    const length = end - start;
    const split = splitAt(length);
    if (split * 2 !== length && length !== 1)
      return hashNode(await this.computeRoot(start, start + split), await this.computeRoot(start + split, end));
    const level = Math.floor(Math.log2(length) / TILE_HEIGHT);
    const first = start / TILE_WIDTH ** level;
    const tile = await this.readTile(level, Math.floor(first / TILE_WIDTH));
    const offset = first % TILE_WIDTH;
    return joinHashes(tile.slice(offset, offset + length / TILE_WIDTH ** level));
  }

  /** Returns the path of a leaf in a tree with the leaves from `start` to `end` (`PATH` in RFC 6962, section 2.1.1). */
  async readLeafPath(index: number, end: number, start = 0): Promise<Buffer[]> {
    if (end - start === 1) return [];
    const middle = start + splitAt(end - start);
    return index < middle
      ? [...(await this.readLeafPath(index, middle, start)), await this.computeRoot(middle, end)]
      : [...(await this.readLeafPath(index, end, middle)), await this.computeRoot(start, middle)];
  }

  /** Returns the path from an earlier size to a tree (`SUBPROOF` in RFC 6962, section 2.1.2). */
  async readConsistencyPath(fromSize: number, end: number, start = 0): Promise<Buffer[]> {
    if (fromSize === end) return start === 0 ? [] : [await this.computeRoot(start, end)];
    const middle = start + splitAt(end - start);
    return fromSize <= middle
      ? [...(await this.readConsistencyPath(fromSize, middle, start)), await this.computeRoot(middle, end)]
      : [...(await this.readConsistencyPath(fromSize, end, middle)), await this.computeRoot(start, middle)];
  }

  /** Finds the number of a leaf by its hash and the log position of its event. Returns undefined if it is not there. */
  async findLeaf(hash: Buffer, position: bigint): Promise<number | undefined> {
    const file = await fs.open(toPositionsFile(this.folder)).catch(toTileError);
    if (!file) throw new TileError(`${toPositionsFile(this.folder)} is missing`);
    try {
      let [low, high] = [0, Math.ceil(this.size / TILE_WIDTH)];
      while (high - low > 1) {
        const middle = Math.floor((low + high) / 2);
        const { buffer } = await file.read(Buffer.alloc(POSITION_BYTES), 0, POSITION_BYTES, middle * POSITION_BYTES);
        if (buffer.readBigUInt64BE() <= position) low = middle;
        else high = middle;
      }
      const offset = (await this.readTile(0, low)).findIndex((leafHash) => leafHash.equals(hash));
      return offset === -1 ? undefined : low * TILE_WIDTH + offset;
    } finally {
      await file.close();
    }
  }
}

/** Returns the largest power of two that is smaller than the number of leaves. */
function splitAt(size: number): number {
  let split = 1;
  while (split * 2 < size) split *= 2;
  return split;
}

/** Returns undefined if a file does not exist. */
function toTileError({ code, message }: NodeJS.ErrnoException): undefined {
  if (code !== "ENOENT") throw new TileError(message);
}
