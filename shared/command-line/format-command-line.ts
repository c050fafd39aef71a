/**
 * Formats a command line of the executable `clinic` for a message to an operator. In a checkout, the npm scripts set
 * CLINIC_PROGRAM to the command that starts the executable there.
 *
 * @param args words after the program's name, such as "projection status"
 */
export function formatCommandLine(args: string): string {
  return `${process.env.CLINIC_PROGRAM ?? "clinic"} ${args}`;
}

/** Formats the line that suggests the next command. */
export function suggestNext(args: string): string {
  return `Next: ${formatCommandLine(args)}`;
}
