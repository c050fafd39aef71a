/** More items of a key wait than may wait. */
export class TooManyWaiting extends Error {
  override readonly name = "TooManyWaiting";
}

interface Waiting<Item, Outcome> {
  item: Item;
  resolve: (outcome: Outcome) => void;
  reject: (error: unknown) => void;
}

/** Takes items and returns one outcome for each, in order. The same for all items of a key. */
export type Send<Item, Outcome> = (items: Item[]) => Promise<Outcome[]>;

/** Adds an item of a key. Throws what `send` throws for its batch, and {@link TooManyWaiting}. */
export type AddToBatch<Item, Outcome> = (
  key: string,
  item: Item,
  send: Send<Item, Outcome>,
) => Promise<Outcome>;

/**
 * Sends the items of a key in batches: one batch of a key is under way at a time, and items that arrive meanwhile make
 * up the next ones, in the order of their arrival. A slow key delays no other key.
 *
 * @param limits.maxWaiting items of a key that may wait; further ones are refused at once
 * @param limits.maxBatch items of one batch
 */
export function createBatches<Item, Outcome>(limits: {
  maxWaiting: number;
  maxBatch: number;
}): AddToBatch<Item, Outcome> {
  const waiting = new Map<string, Waiting<Item, Outcome>[]>();

  async function sendAll(key: string, first: Waiting<Item, Outcome>, send: Send<Item, Outcome>) {
    const next: Waiting<Item, Outcome>[] = [];
    waiting.set(key, next);
    for (let batch = [first]; batch.length > 0; batch = next.splice(0, limits.maxBatch)) {
      try {
        const outcomes = await send(batch.map(({ item }) => item));
        for (const [index, { resolve }] of batch.entries()) resolve(outcomes[index] as Outcome);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    waiting.delete(key);
  }

  return (key, item, send) =>
    new Promise((resolve, reject) => {
      const next = waiting.get(key);
      if (!next) void sendAll(key, { item, resolve, reject }, send);
      else if (next.length < limits.maxWaiting) next.push({ item, resolve, reject });
      else reject(new TooManyWaiting(`${limits.maxWaiting} items of one key wait already`));
    });
}
