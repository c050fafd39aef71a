/** Shortened links along the hash chain. They locate the first difference between two chains; they are no proof. */
export interface Marks {
  /** Number of lines between two marks: 1, or a power of 2 for a long export. */
  every: number;
  links: string[];
}

/** Maximum number of marks. Up to this number of lines, each line has a mark. */
const MAX_MARKS = 4_096;

/** Length of a mark in hex digits. */
const MARK_LENGTH = 16;

/** Collects marks line by line. If there are too many, every other mark is dropped. */
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
 * Locates the first difference between two chains.
 *
 * @returns the range of lines that contains the first difference
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
