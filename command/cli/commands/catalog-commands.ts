import { option } from "../../../shared/command-line/option.ts";
import { resourceStreams, serviceStreams } from "../../../shared/domain/events/clinic.ts";
import {
  addResource,
  offerService,
  reinstateService,
  removeRule,
  repriceService,
  retireResource,
  setRule,
  withdrawService,
} from "../../operations/clinic-operations.ts";
import { type DomainCommand, defineDomainCommand } from "../domain-command.ts";
import { clinic, timeZoneSchema } from "../options.ts";

const serviceFields = serviceStreams.events.ServiceOffered.shape;
const resourceFields = resourceStreams.events.ResourceAdded.shape;
const ruleFields = resourceStreams.events.AvailabilityRuleSet.shape;
const EXAMPLE_CLINIC_ARGUMENT = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const EXAMPLE_ID_ARGUMENT = "--id 3a7f2a10-94b1-4f53-8f3b-5d2f6c8b0004";

const serviceOptions = { id: option.id("the service"), clinic };
const resourceOptions = { id: option.id("the resource"), clinic };

export const catalogCommands: DomainCommand[] = [
  defineDomainCommand(serviceStreams, {
    name: "service offer",
    summary: "Adds a service to a clinic's catalog, priced in the clinic's currency.",
    example: `${EXAMPLE_CLINIC_ARGUMENT} --name 'Consultation' --category Consultations --price 60 --taxable`,
    options: {
      id: option.newId("the new service's id"),
      clinic,
      name: option.text(serviceFields.name, "name"),
      category: option.nullableText(serviceFields.category, "category"),
      price: option.number(serviceFields.price, "price"),
      taxable: option.flag("mark the service as taxable"),
    },
    run: (log, { id: serviceId, clinic: clinicId, ...offer }, context) =>
      offerService(log, { serviceId, clinicId, ...offer }, context),
  }),
  defineDomainCommand(serviceStreams, {
    name: "service reprice",
    summary: "Sets the price of a service.",
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT} --price 65`,
    options: { ...serviceOptions, price: option.number(serviceFields.price, "price") },
    run: (log, { id: serviceId, clinic: clinicId, price }, context) =>
      repriceService(log, { serviceId, clinicId, price }, context),
  }),
  defineDomainCommand(serviceStreams, {
    name: "service withdraw",
    summary: "Withdraws a service from the catalog.",
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT}`,
    options: serviceOptions,
    run: (log, { id: serviceId, clinic: clinicId }, context) => withdrawService(log, { serviceId, clinicId }, context),
  }),
  defineDomainCommand(serviceStreams, {
    name: "service reinstate",
    summary: "Offers a withdrawn service again.",
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT}`,
    options: serviceOptions,
    run: (log, { id: serviceId, clinic: clinicId }, context) => reinstateService(log, { serviceId, clinicId }, context),
  }),
  defineDomainCommand(resourceStreams, {
    name: "resource add",
    summary: "Adds a bookable resource (room, device or staff time) to a branch.",
    example: `${EXAMPLE_CLINIC_ARGUMENT} --branch 7c2f9d14-0d7e-4c07-9a6f-1b8e4f5a0005 --type room --name 'Room 1'`,
    options: {
      id: option.newId("the new resource's id"),
      clinic,
      branch: option.id("the branch"),
      type: option.text(resourceFields.resourceType, "resource type, such as room"),
      name: option.text(resourceFields.name, "name"),
      capacity: option.number(resourceFields.capacity.default(1), "number of simultaneous appointments; default: 1"),
      timezone: option.nullableText(timeZoneSchema, "IANA time zone; default: time zone of the clinic", "zone"),
      metadata: option.json(resourceFields.metadata.default({}), "other properties of the resource, as a JSON object"),
    },
    run: (log, { id: resourceId, clinic: clinicId, branch: branchId, type: resourceType, ...details }, context) =>
      addResource(log, { resourceId, clinicId, branchId, resourceType, ...details }, context),
  }),
  defineDomainCommand(resourceStreams, {
    name: "resource retire",
    summary: "Retires a resource. A retired resource cannot be allocated.",
    example: `${EXAMPLE_ID_ARGUMENT} ${EXAMPLE_CLINIC_ARGUMENT}`,
    options: resourceOptions,
    run: (log, { id: resourceId, clinic: clinicId }, context) => retireResource(log, { resourceId, clinicId }, context),
  }),
  defineDomainCommand(resourceStreams, {
    name: "rule set",
    summary: "Sets an availability rule of a resource. Replaces an existing rule with the same id.",
    example: `${EXAMPLE_CLINIC_ARGUMENT} --resource ${EXAMPLE_ID_ARGUMENT.slice(5)} --weekday 1 --starts-at 08:00:00 --ends-at 18:00:00`,
    options: {
      id: option.newId("the new rule's id, or the id of the rule to replace"),
      clinic,
      resource: resourceOptions.id,
      weekday: option.number(ruleFields.weekday, "0 (Sunday) to 6 (Saturday)"),
      startsAt: option.text(ruleFields.startsAt, "start, as a time of day", "HH:MM:SS"),
      endsAt: option.text(ruleFields.endsAt, "end, as a time of the same day; 24:00:00 is its end", "HH:MM:SS"),
      validFrom: option.nullableText(ruleFields.validFrom, "first day on which the rule applies", "YYYY-MM-DD"),
      validUntil: option.nullableText(ruleFields.validUntil, "last day on which the rule applies", "YYYY-MM-DD"),
      type: option.text(ruleFields.ruleType.default("opening_hours"), "type of the rule; default: opening_hours"),
      recurrence: option.json(ruleFields.recurrence.default(null), "recurrence of the rule, as a JSON object"),
    },
    getStreamId: (values) => values.resource,
    run: (log, { id: ruleId, clinic: clinicId, resource: resourceId, type: ruleType, ...details }, context) =>
      setRule(log, { resourceId, clinicId, rule: { ruleId, ruleType, ...details } }, context),
  }),
  defineDomainCommand(resourceStreams, {
    name: "rule remove",
    summary: "Removes an availability rule of a resource.",
    example: `--id c5d0b7a2-1f3e-4a68-9b7c-0d1e2f3a400c ${EXAMPLE_CLINIC_ARGUMENT} --resource ${EXAMPLE_ID_ARGUMENT.slice(5)}`,
    options: { id: option.id("the rule"), clinic, resource: resourceOptions.id },
    getStreamId: (values) => values.resource,
    run: (log, { id: ruleId, clinic: clinicId, resource: resourceId }, context) =>
      removeRule(log, { resourceId, clinicId, ruleId }, context),
  }),
];
