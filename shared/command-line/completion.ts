import type { CommandLineTexts } from "./program.ts";

/** Completion scripts by shell. A script runs `clinic complete` to get the words that can follow. */
const SCRIPTS: Record<string, string> = {
  bash: `_clinic() {
  local IFS=$'\\n'
  COMPREPLY=($(compgen -W "$(clinic complete "\${COMP_WORDS[@]:1:COMP_CWORD}" | cut -f1)" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _clinic clinic`,
  zsh: `#compdef clinic
_clinic() {
  local -a lines=("\${(@f)$(clinic complete "\${(@)words[2,CURRENT]}")}")
  local -a candidates=("\${(@)lines//$'\\t'/:}")
  if [[ -n $lines ]]; then _describe clinic candidates; else _files; fi
}
whence compdef > /dev/null || { autoload -U compinit && compinit -i; }
compdef _clinic clinic`,
  fish: `function __clinic_complete
  set -l lines (clinic complete (commandline -opc)[2..] (commandline -ct))
  if test -n "$lines"; printf '%s\\n' $lines; else; __fish_complete_path (commandline -ct); end
end
complete -c clinic -f -a '(__clinic_complete)'`,
};

/** Returns the completion script of a shell; undefined for an unknown shell. */
export function formatCompletionScript(shell = ""): string | undefined {
  return Object.hasOwn(SCRIPTS, shell) ? SCRIPTS[shell] : undefined;
}

/**
 * Lists the words that can follow the given words, each with a description after a tab, if it has one.
 *
 * @param commandLines texts of the command lines: first those of `clinic` itself, then those of programs such as
 *   `clinic audit`
 * @param words words after the program's name; the last one is incomplete
 */
export function completeWords([main, ...others]: readonly CommandLineTexts[], words: readonly string[]): string[] {
  const given = words.slice(0, -1);
  const other = others.find(({ program }) => program === `clinic ${given[0]}`);
  if (other) return completeCommand(other, given.slice(1));
  const names = others.map(({ program, description }) => `${program.split(" ")[1]}\t${description}`);
  return [...(main ? completeCommand(main, given) : []), ...(given.length === 0 ? names : [])];
}

function completeCommand({ commands }: CommandLineTexts, given: readonly string[]): string[] {
  const command = commands.find(({ name }) => name.split(" ").every((word, index) => given[index] === word));
  if (command) {
    const last = given.at(-1) ?? "";
    const values = command.options.find(({ flags }) => flags.split(" ")[0] === last)?.values;
    if (values) return [...values];
    const options = command.options.filter(({ flags, isPositional }) => {
      const [name = ""] = flags.split(" ");
      return !isPositional && !given.includes(name);
    });
    return options.map(({ flags, help }) => `${flags.split(" ")[0]}\t${help}`);
  }
  const matching = commands.filter(({ name }) => given.every((word, index) => name.split(" ")[index] === word));
  const nextWords = matching.map(({ name, summary }) => {
    const parts = name.split(" ");
    return [parts[given.length] ?? "", parts.length === given.length + 1 ? summary : ""] as const;
  });
  return [...new Map(nextWords)].map(([word, summary]) => `${word}\t${summary}`);
}
