import { createHash } from "node:crypto";
import { v5 as uuidv5 } from "uuid";

const NAMESPACE = "5c1d0c0e-9d0b-4f0f-8a55-1c7a2d6f4b21";

/** Returns the UUID of a demo object. The UUID depends only on the given names. */
export function deriveDemoId(...names: (string | number)[]): string {
  return uuidv5(names.join("\n"), NAMESPACE);
}

/** Makes pseudo-random choices that depend only on the seed. */
export interface Picker {
  /** Returns an integer from 0 to `bound` - 1. */
  pickIntegerBelow(bound: number): number;
  pick<Item>(items: readonly Item[]): Item;
  /** Returns true with this probability, from 0 to 1. */
  pickBoolean(probability: number): boolean;
}

export function createPicker(...seed: (string | number)[]): Picker {
  let drawCount = 0;
  const drawIntegerBelow = (bound: number) => {
    drawCount += 1;
    const digest = createHash("sha256")
      .update([...seed, drawCount].join("\n"))
      .digest();
    return digest.readUInt32BE(0) % bound;
  };
  return {
    pickIntegerBelow: drawIntegerBelow,
    pick(items) {
      const item = items[drawIntegerBelow(items.length)];
      if (item === undefined) throw new Error("The list to choose from is empty.");
      return item;
    },
    pickBoolean: (probability) => drawIntegerBelow(1000) < probability * 1000,
  };
}
