import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "chai";
import { PROJECT_FOLDER } from "../../deploy/local/setup/project.ts";

/**
 * Checks that a file of the project equals the generated text. In `npm run examples` and `npm run docs`, writes the
 * text to the file instead.
 *
 * @param name path of the file in the project
 */
export async function checkGeneratedFile(name: string, text: string): Promise<void> {
  const file = path.join(PROJECT_FOLDER, name);
  if (process.env.UPDATE_EXAMPLES === "true") await writeFile(file, text);
  const currentText = await readFile(file, "utf8").catch(() => "");
  expect(currentText, `${name} is not current. Run npm run examples or npm run docs, and review the changes.`).to.equal(
    text,
  );
}
