import { expect } from "chai";
import { replacePart } from "./performance-document.ts";

const PARTS = ["reads", "writes", "import"];

describe("the document of the benchmarks", () => {
  it("the document of the benchmarks gets the tables of the parts that ran, in order, and keeps all others", () => {
    const toDocument = (tables: string) =>
      `# Performance\n\n<!-- Start of the tables, which \`npm run bench\` writes. -->\n${tables}<!-- End of the tables. -->\n\nText.\n`;
    const addTable = (document: string, part: string, rate: number) => {
      const rows = [
        { name: "creates", rate, referenceRate: 100, cpuMicros: { command: 41.2 }, note: "remark" },
        { name: "detail", p50: 1, isDetail: true },
      ];
      return replacePart(document, PARTS, { part, setup: "2 cores.", rows });
    };
    const toTable = (part: string, rateCells: string) =>
      [
        `### ${part}\n\n2 cores.\n\n`,
        "| measurement | rate/s | ratio | CPU µs per item and process, remarks |\n|---|---|---|---|\n",
        `| creates | ${rateCells} | command 41, remark |\n\n`,
      ].join("");

    const first = addTable(addTable(toDocument("\n"), "writes", 25), "reads", 50);
    expect(first).to.equal(toDocument(`\n${toTable("reads", "50 | 0.50")}${toTable("writes", "25 | 0.25")}`));

    const second = addTable(first, "writes", 75);
    expect(second).to.equal(toDocument(`\n${toTable("reads", "50 | 0.50")}${toTable("writes", "75 | 0.75")}`));
  });

  it("a document of the benchmarks without markers is refused", () => {
    expect(() => replacePart("# Performance\n", PARTS, { part: "reads", setup: "", rows: [] })).to.throw("marker");
  });
});
