/** Markdown documents include files: a comment with the file's path, followed by a code block with its content. */
const INCLUSION = /^(<!-- include (\S+) -->\n```(\w+)\n)[\s\S]*?^```$/gm;

/** Returns the paths of all included files, relative to the document. */
export function listIncludedFiles(markdown: string): string[] {
  return [...markdown.matchAll(INCLUSION)].map(([, , file = ""]) => file);
}

/**
 * Replaces each included text by the content of its file.
 *
 * @param readText returns the content of a file, by its path relative to the document
 */
export function includeFiles(markdown: string, readText: (file: string) => string): string {
  return markdown.replace(INCLUSION, (_, start: string, file: string) => `${start}${readText(file)}\`\`\``);
}
