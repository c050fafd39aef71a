import { z } from "zod";
import { defineCommand } from "./command-line.ts";
import { formatCompletionScript } from "./completion.ts";
import { option } from "./option.ts";

/**
 * The executable prints the script itself, because loading this command would slow down each start of a shell. The
 * command exists for help and completion.
 */
export const completionCommand = defineCommand({
  name: "completion",
  summary: "Prints the script with which a shell completes commands and options.",
  options: { shell: option.argument(z.enum(["bash", "zsh", "fish"]), "bash, zsh or fish") },
  example: "bash",
  details: `Add one of these lines to the configuration of your shell:

  bash: source <(clinic completion bash)
  zsh:  source <(clinic completion zsh)
  fish: clinic completion fish | source

In a checkout, where the program is not installed, define it before this line:

  bash, zsh: clinic() { npm --prefix <folder> run -s clinic -- "$@"; }
  fish:      function clinic; npm --prefix <folder> run -s clinic -- $argv; end`,
  run: ({ shell }, { writeOutput }) => writeOutput(formatCompletionScript(shell) ?? ""),
});
