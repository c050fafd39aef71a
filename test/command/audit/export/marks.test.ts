import { expect } from "chai";
import { createMarkCollector, findFirstDifference } from "../../../../command/audit/export/chain.ts";

describe("the marks of an export", () => {
  const collectMarks = (links: string[], maxMarks: number) => {
    const markCollector = createMarkCollector(maxMarks);
    for (const link of links) markCollector.add(link);
    return markCollector.getMarks();
  };
  const links = Array.from({ length: 20 }, (_, index) => String(index + 1).padStart(16, "0"));
  const changeLinksFrom = (line: number) =>
    links.map((link, index) => (index + 1 < line ? link : link.replace("0", "x")));

  it("a short export has a mark for every line, and a long export has a mark for every n-th line", () => {
    expect(collectMarks(links, 20)).to.deep.include({ every: 1 });
    const { every, links: markedLinks } = collectMarks(links, 6);
    expect([every, markedLinks.map(Number)]).to.deep.equal([4, [4, 8, 12, 16, 20]]);
  });

  it("findFirstDifference locates the first line in which two hash chains differ", () => {
    for (const line of [1, 7, 20]) {
      const exactRange = findFirstDifference(collectMarks(links, 20), collectMarks(changeLinksFrom(line), 20));
      expect(exactRange).to.deep.equal({ firstLine: line, lastLine: line });
      const difference = findFirstDifference(collectMarks(links, 6), collectMarks(changeLinksFrom(line), 20));
      const { firstLine, lastLine } = difference;
      expect(firstLine <= line && line <= lastLine && lastLine - firstLine < 4).to.equal(true);
    }
    expect(findFirstDifference(collectMarks(links, 20), collectMarks(links.slice(0, 15), 20)).firstLine).to.equal(16);
  });
});
