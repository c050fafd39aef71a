/** Beginnings of links along the chain: they do not prove it, they tell where it is another one. */
export interface Marks {
  /** A link is kept after every so many lines: 1, or a power of 2 where the lines are many. */
  every: number;
  links: string[];
}

/** So many links are kept at the most: up to here each line has its own. */
const MAX_MARKS = 4_096;

/** Of a link, in hex digits. */
const MARK_LENGTH = 16;

/** Keeps marks while lines come: when they are too many, every other one goes. */
export function createMarks(most = MAX_MARKS): { add(link: string): void; marks(): Marks } {
  let every = 1;
  let links: string[] = [];
  let lines = 0;
  return {
    add(link) {
      lines += 1;
      if (lines % every === 0) links.push(link.slice(0, MARK_LENGTH));
      if (links.length <= most) return;
      links = links.filter((_, index) => index % 2 === 1);
      every *= 2;
    },
    marks: () => ({ every, links }),
  };
}

/**
 * Where two chains part.
 *
 * @returns the first and the last of the lines among which is the first that differs
 */
export function firstDifference(one: Marks, other: Marks): { first: number; last: number } {
  const every = Math.max(one.every, other.every);
  const [a, b] = [thinned(one, every), thinned(other, every)];
  let same = 0;
  while (same < a.length && a[same] === b[same]) same += 1;
  return { first: same * every + 1, last: (same + 1) * every };
}

function thinned({ every, links }: Marks, wanted: number): string[] {
  const step = wanted / every;
  return links.filter((_, index) => (index + 1) % step === 0);
}
