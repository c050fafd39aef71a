export class QueueFullError extends Error {
  override readonly name = "QueueFullError";
}

interface WaitingItem<Item, Outcome> {
  item: Item;
  resolve: (outcome: Outcome) => void;
  reject: (error: unknown) => void;
}

/**
 * Sends a batch of items. Returns one outcome for each item, in order. All items of a key must be added with the same
 * function.
 */
type Send<Item, Outcome> = (items: Item[]) => Promise<Outcome[]>;

/**
 * Adds an item of a key to the next batch.
 *
 * @throws {QueueFullError}
 * @throws the error of `send` for the item's batch
 */
type AddToBatch<Item, Outcome> = (key: string, item: Item, send: Send<Item, Outcome>) => Promise<Outcome>;

/**
 * Creates a function that sends the items of each key in batches. At most one batch of a key is in progress. Items
 * that arrive meanwhile form the next batches, in order of arrival. A slow key does not delay other keys.
 */
export function createBatcher<Item, Outcome>(limits: {
  maxWaitingItems: number;
  maxBatchSize: number;
}): AddToBatch<Item, Outcome> {
  const waitingItems = new Map<string, WaitingItem<Item, Outcome>[]>();

  async function sendAll(key: string, firstItem: WaitingItem<Item, Outcome>, send: Send<Item, Outcome>) {
    const nextItems: WaitingItem<Item, Outcome>[] = [];
    waitingItems.set(key, nextItems);
    for (let batch = [firstItem]; batch.length > 0; batch = nextItems.splice(0, limits.maxBatchSize)) {
      try {
        const outcomes = await send(batch.map(({ item }) => item));
        for (const [index, { resolve }] of batch.entries()) resolve(outcomes[index] as Outcome);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    waitingItems.delete(key);
  }

  return (key, item, send) =>
    new Promise((resolve, reject) => {
      const nextItems = waitingItems.get(key);
      if (!nextItems) void sendAll(key, { item, resolve, reject }, send);
      else if (nextItems.length < limits.maxWaitingItems) nextItems.push({ item, resolve, reject });
      else reject(new QueueFullError(`${limits.maxWaitingItems} items of one key are already waiting`));
    });
}
