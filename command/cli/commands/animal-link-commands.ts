import { z } from "zod";
import { defineCommand } from "../../../shared/command-line/command-line.ts";
import { actorOption, requireOperator } from "../../../shared/command-line/operator.ts";
import { jsonOption, option } from "../../../shared/command-line/option.ts";
import { LINK_CODE_VALIDITY_MS } from "../../../shared/domain/clinic/animal-consent.ts";
import { animalConsentStreams, consentCoverage, withdrawalParty } from "../../../shared/domain/events/consent.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createOperatorContext, withEventLog } from "../../handling/operator.ts";
import { createLinkCode, withdrawLink } from "../../operations/animal-link-operations.ts";
import { createLinkCodes } from "../../operations/link-codes.ts";
import { type DomainCommand, defineDomainCommand, formatResult } from "../domain-command.ts";
import { clinic } from "../options.ts";

const EXAMPLE_ARGUMENTS =
  "--animal 9c1d6c1e-5b60-4a7b-8a38-6f2f6a1e0003 --application 4f6d0a9e-8c2b-47d1-b3e5-6a7c8d9e0009 --clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";

const linkOptions = {
  animal: option.id("the animal"),
  application: option.id("the application"),
  clinic,
};

const MINUTE_MS = 60_000;
const VALIDITY_MINUTES = { min: LINK_CODE_VALIDITY_MS.min / MINUTE_MS, max: LINK_CODE_VALIDITY_MS.max / MINUTE_MS };
const VALIDITY_RULE = `must be a whole number of minutes from ${VALIDITY_MINUTES.min} to ${VALIDITY_MINUTES.max}`;

const CREATE = "animal link-code create";

export const createLinkCodeCommand = defineCommand({
  name: CREATE,
  summary:
    "Creates a code with which an application can link an animal once. The code is shown only now. Give it to the animal's owner. It replaces an earlier code that was not redeemed.",
  options: {
    ...linkOptions,
    covers: option.text(
      consentCoverage,
      "what the owner's consent covers: appointments_read, or appointments_write to also create appointments",
      "name",
    ),
    validFor: option.number(
      z
        .number(VALIDITY_RULE)
        .int(VALIDITY_RULE)
        .min(VALIDITY_MINUTES.min, VALIDITY_RULE)
        .max(VALIDITY_MINUTES.max, VALIDITY_RULE),
      `validity of the code in minutes: ${VALIDITY_MINUTES.min} to ${VALIDITY_MINUTES.max} (seven days)`,
    ),
    actor: actorOption,
    json: jsonOption,
  },
  example: `${EXAMPLE_ARGUMENTS} --covers appointments_write --valid-for 1440`,
  details: "Uses a key that is derived from PERSONAL_DATA_KEYS. Use the same keys as the running services.",
  async run(values, { env, writeOutput }) {
    const { animal: animalId, application: applicationId, clinic: clinicId, covers, validFor, actor, json } = values;
    const context = createOperatorContext(requireOperator(env, actor), Date.now());
    const linkCodes = createLinkCodes(readConfig(["PERSONAL_DATA_KEYS"], env).PERSONAL_DATA_KEYS);
    const input = { animalId, applicationId, clinicId, covers, validityMs: validFor * MINUTE_MS };
    const { events, position, code, expiresAt } = await withEventLog(env, (log) =>
      createLinkCode({ log, linkCodes }, input, context),
    );
    const printedResult = { id: animalId, eventCount: events.length, position, extraValues: { code, expiresAt } };
    await writeOutput(formatResult(CREATE, printedResult, json));
  },
});

export const animalLinkCommands: DomainCommand[] = [
  defineDomainCommand(animalConsentStreams, {
    name: "animal link withdraw",
    summary:
      "Withdraws the consent to share an animal with an application, and invalidates a code that was not redeemed. Takes effect within about a second.",
    example: `${EXAMPLE_ARGUMENTS} --requested-by owner`,
    options: {
      ...linkOptions,
      requestedBy: option.text(
        withdrawalParty.exclude(["application"]),
        "who withdraws the consent: owner or clinic",
        "name",
      ),
    },
    getStreamId: (values) => values.animal,
    run: (log, { animal: animalId, application: applicationId, clinic: clinicId, requestedBy }, context) =>
      withdrawLink(log, { animalId, applicationId, clinicId, requestedBy }, context),
  }),
];
