import { expect } from "chai";
import { LruMap } from "../../../shared/runtime/lru.ts";

describe("LruMap", () => {
  it("the map keeps the most recently used half of its capacity, and never more entries than its capacity", () => {
    const [capacity, map, recentlyUsedKeys] = [10, new LruMap<number, string>(10), [] as number[]];
    const use = (key: number) => {
      if (recentlyUsedKeys.includes(key)) recentlyUsedKeys.splice(recentlyUsedKeys.indexOf(key), 1);
      recentlyUsedKeys.unshift(key);
    };
    for (let step = 0; step < 1_000; step += 1) {
      const key = (step * 7919) % 23;
      const isKept = recentlyUsedKeys.slice(0, capacity / 2).includes(key);
      const value = map.get(key);
      if (isKept) expect(value, `step ${step}`).to.equal(`value ${key}`);
      if (value === undefined) map.set(key, `value ${key}`);
      use(key);
    }
    const keptKeys = Array.from({ length: 23 }, (_, key) => key).filter((key) => map.get(key) !== undefined);
    expect(keptKeys.length).to.be.within(capacity / 2, capacity);
  });

  it("a deleted entry is gone, and an entry that was set again has its new value", () => {
    const map = new LruMap<string, number>(4);
    for (const [index, key] of ["a", "b", "c"].entries()) map.set(key, index);
    map.set("a", 7);
    map.delete("b");
    expect(["a", "b", "c"].map((key) => map.get(key))).to.deep.equal([7, undefined, 2]);
  });
});
