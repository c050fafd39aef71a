/** One of the guide's three machines, or the administrator's machine. */
export type MachineName = "a" | "b" | "c" | "administrator";

export interface Step {
  /** Heading of the section that contains the block. */
  section: string;
  machines: MachineName[];
  script: string;
}

const ALL_MACHINES: MachineName[] = ["a", "b", "c"];

/**
 * Returns the shell blocks of a guide in order. The paragraph before each block says where it runs, for example "On `a`
 * and `b`:".
 *
 * @throws {Error} if the paragraph before a block names no machine
 */
export function readSteps(markdown: string): Step[] {
  const steps: Step[] = [];
  let section = "";
  for (const [, heading, paragraph = "", script] of markdown.matchAll(
    /^## (.+)$|(?:^|\n)((?:(?!#|```).+\n)+)\n```sh\n([\s\S]*?)^```$/gm,
  )) {
    if (heading !== undefined) section = heading;
    else if (script !== undefined) steps.push({ section, machines: readMachines(paragraph), script });
  }
  return steps;
}

/** Returns the machines that the paragraph names last, after "on". */
function readMachines(paragraph: string): MachineName[] {
  const text = paragraph.replaceAll("\n", " ");
  const [, place = ""] =
    /.*\b[Oo]n (the administrator's machine|all machines|`[abc]`(?: and `[abc]`)?)/.exec(text) ?? [];
  if (place.startsWith("the")) return ["administrator"];
  if (place.startsWith("all")) return ALL_MACHINES;
  const machines = ALL_MACHINES.filter((machine) => place.includes(`\`${machine}\``));
  if (machines.length === 0) throw new Error(`No machine is named before a block of commands: ${text}`);
  return machines;
}
