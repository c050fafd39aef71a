import { z } from "zod";
import { generateKeys, type KeySetting } from "../../../shared/auth/generate-keys.ts";
import { defineCommand } from "../../../shared/command-line/command-line.ts";
import { option } from "../../../shared/command-line/option.ts";
import { readConfig, settings } from "../../../shared/runtime/config.ts";

export const keySettings = Object.keys(settings).filter((name): name is KeySetting => name.endsWith("_KEYS"));

const FORMER_HELP = "file with the value of the setting; the new key is added to its keys, and is not used yet";

export const generateKeysCommand = defineCommand({
  name: "keys generate",
  summary: "Generates a key, and prints the value of a setting with this key. Needs no server.",
  options: {
    for: option.text(z.enum(keySettings), `the setting: ${keySettings.join(", ")}`, "setting"),
    addTo: option.text(z.string().optional(), FORMER_HELP, "file"),
  },
  example: "--for TOKEN_SIGNING_KEYS > token-signing-keys",
  run: ({ for: setting, addTo }, { writeOutput }) => {
    const former = addTo === undefined ? undefined : readConfig([setting], { [`${setting}_FILE`]: addTo })[setting];
    return writeOutput(generateKeys(setting, former));
  },
});
