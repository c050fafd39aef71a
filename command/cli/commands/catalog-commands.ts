import { resourceCategory, serviceCategory } from "../../../shared/domain/events/clinic.ts";
import {
  addResource,
  offerService,
  reinstateService,
  removeRule,
  repriceService,
  retireResource,
  setRule,
  withdrawService,
} from "../../operations/catalog-operations.ts";
import { type Command, defineCommand } from "../framework/command.ts";
import { flag, id, json, newId, number, text, textOrNull, timeZone } from "../framework/option.ts";

const offered = serviceCategory.events.ServiceOffered.shape;
const added = resourceCategory.events.ResourceAdded.shape;
const rule = resourceCategory.events.AvailabilityRuleSet.shape;
const CLINIC = "--clinic 0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";
const ID = "--id 3a7f2a10-94b1-4f53-8f3b-5d2f6c8b0004";

const service = { id: id("the service"), clinic: id("the clinic") };
const resource = { id: id("the resource"), clinic: id("the clinic") };

export const catalogCommands: Command[] = [
  defineCommand({
    name: "service offer",
    summary: "Adds a service to a clinic's catalog, priced in the clinic's currency.",
    example: `${CLINIC} --name 'Consultation' --category Consultations --price 60 --taxable`,
    options: {
      id: newId("the new service's id"),
      clinic: service.clinic,
      name: text(offered.name, "name"),
      category: textOrNull(offered.category.unwrap(), "category"),
      price: number(offered.price, "price"),
      taxable: flag("the service is taxable"),
    },
    category: serviceCategory,
    changes: (values) => values.id,
    run: (log, { id: serviceId, clinic: clinicId, ...offer }, context) =>
      offerService(log, { serviceId, clinicId, ...offer }, context),
  }),
  defineCommand({
    name: "service reprice",
    summary: "Sets the price of a service.",
    example: `${ID} ${CLINIC} --price 65`,
    options: { ...service, price: number(offered.price, "price") },
    category: serviceCategory,
    changes: (values) => values.id,
    run: (log, { id: serviceId, clinic: clinicId, price }, context) =>
      repriceService(log, { serviceId, clinicId, price }, context),
  }),
  defineCommand({
    name: "service withdraw",
    summary: "Removes a service from the catalog.",
    example: `${ID} ${CLINIC}`,
    options: service,
    category: serviceCategory,
    changes: (values) => values.id,
    run: (log, { id: serviceId, clinic: clinicId }, context) =>
      withdrawService(log, { serviceId, clinicId }, context),
  }),
  defineCommand({
    name: "service reinstate",
    summary: "Offers a withdrawn service again.",
    example: `${ID} ${CLINIC}`,
    options: service,
    category: serviceCategory,
    changes: (values) => values.id,
    run: (log, { id: serviceId, clinic: clinicId }, context) =>
      reinstateService(log, { serviceId, clinicId }, context),
  }),
  defineCommand({
    name: "resource add",
    summary: "Adds a bookable resource (room, device or staff time) to a branch.",
    example: `${CLINIC} --branch 7c2f9d14-0d7e-4c07-9a6f-1b8e4f5a0005 --type room --name 'Room 1'`,
    options: {
      id: newId("the new resource's id"),
      clinic: resource.clinic,
      branch: id("the branch"),
      type: text(added.resourceType, "resource type, such as room"),
      name: text(added.name, "name"),
      capacity: number(added.capacity.default(1), "number of simultaneous appointments; default: 1"),
      timezone: textOrNull(timeZone, "IANA time zone; default: time zone of the clinic", "zone"),
      metadata: json(added.metadata.default({}), "other properties, as a JSON object"),
    },
    category: resourceCategory,
    changes: (values) => values.id,
    run: (
      log,
      { id: resourceId, clinic: clinicId, branch: branchId, type: resourceType, ...rest },
      context,
    ) => addResource(log, { resourceId, clinicId, branchId, resourceType, ...rest }, context),
  }),
  defineCommand({
    name: "resource retire",
    summary: "Takes a resource out of use.",
    example: `${ID} ${CLINIC}`,
    options: resource,
    category: resourceCategory,
    changes: (values) => values.id,
    run: (log, { id: resourceId, clinic: clinicId }, context) =>
      retireResource(log, { resourceId, clinicId }, context),
  }),
  defineCommand({
    name: "rule set",
    summary: "Sets an availability rule of a resource. Replaces an existing rule with the same id.",
    example: `${CLINIC} --resource ${ID.slice(5)} --weekday 1 --starts-at 08:00:00 --ends-at 18:00:00`,
    options: {
      id: newId("the rule's id"),
      clinic: resource.clinic,
      resource: resource.id,
      weekday: number(rule.weekday, "0 (Sunday) to 6 (Saturday)"),
      startsAt: text(rule.startsAt, "start, time of day", "HH:MM:SS"),
      endsAt: text(rule.endsAt, "end, time of day on the same day", "HH:MM:SS"),
      validFrom: textOrNull(rule.validFrom.unwrap(), "first day", "YYYY-MM-DD"),
      validUntil: textOrNull(rule.validUntil.unwrap(), "last day", "YYYY-MM-DD"),
      type: text(rule.ruleType.default("opening_hours"), "rule type; default: opening_hours"),
      recurrence: json(rule.recurrence.default(null), "recurrence, as a JSON object"),
    },
    category: resourceCategory,
    changes: (values) => values.resource,
    run: (log, { id: ruleId, clinic: clinicId, resource: resourceId, type: ruleType, ...rest }, context) =>
      setRule(log, { resourceId, clinicId, rule: { ruleId, ruleType, ...rest } }, context),
  }),
  defineCommand({
    name: "rule remove",
    summary: "Removes an availability rule of a resource.",
    example: `--id c5d0b7a2-1f3e-4a68-9b7c-0d1e2f3a400c ${CLINIC} --resource ${ID.slice(5)}`,
    options: { id: id("the rule"), clinic: resource.clinic, resource: resource.id },
    category: resourceCategory,
    changes: (values) => values.resource,
    run: (log, { id: ruleId, clinic: clinicId, resource: resourceId }, context) =>
      removeRule(log, { resourceId, clinicId, ruleId }, context),
  }),
];
