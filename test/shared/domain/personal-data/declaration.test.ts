import { expect } from "chai";
import { z } from "zod";
import { appointmentAggregate } from "../../../../shared/domain/appointment/appointment.ts";
import { auditorAggregate } from "../../../../shared/domain/audit/auditor.ts";
import { animalAggregate } from "../../../../shared/domain/clinic/animal.ts";
import { customerAggregate } from "../../../../shared/domain/clinic/customer.ts";
import { membershipAggregate } from "../../../../shared/domain/clinic/membership.ts";
import { queueTicketAggregate } from "../../../../shared/domain/clinic/queue-ticket.ts";
import { staffAggregate } from "../../../../shared/domain/clinic/staff.ts";
import { categories } from "../../../../shared/domain/events/catalog.ts";
import type { Category } from "../../../../shared/domain/events/category.ts";
import {
  calendarDate,
  formats,
  freeForm,
  instant,
  label,
  timeOfDay,
  uuid,
} from "../../../../shared/domain/events/fields.ts";
import { findDeclaration, notPersonal, personal } from "../../../../shared/domain/personal-data/declaration.ts";
import { findPersonalFields } from "../../../../shared/domain/personal-data/personal-fields.ts";

/** Returns the paths of fields that can hold free text but are not declared. */
function findUndeclaredFields(schema: z.core.$ZodType, path: string): string[] {
  // A schema with a format cannot hold free text.
  if (formats.get(schema as z.ZodType) || findDeclaration(schema as z.ZodType)) return [];
  const definition = (schema as z.ZodType).def as unknown as {
    type: string;
    format?: string;
    checks?: { _zod: { def: { format?: string } } }[];
    shape?: Record<string, z.core.$ZodType>;
    innerType?: z.core.$ZodType;
    element?: z.core.$ZodType;
  };
  switch (definition.type) {
    case "number":
    case "boolean":
    case "enum":
      return [];
    case "object":
      return Object.entries(definition.shape ?? {}).flatMap(([name, field]) =>
        findUndeclaredFields(field, path === "" ? name : `${path}.${name}`),
      );
    case "array":
      return findUndeclaredFields(definition.element as z.core.$ZodType, `${path}[]`);
    case "optional":
    case "nullable":
    case "default":
      return findUndeclaredFields(definition.innerType as z.core.$ZodType, path);
    case "string": {
      const hasPattern = definition.checks?.some(({ _zod }) => _zod.def.format === "regex") ?? false;
      return hasPattern || definition.format === "guid" ? [] : [path];
    }
    default:
      // Any other schema may accept text.
      return [path];
  }
}

describe("declarations of personal data", () => {
  it("every field of the catalog that can hold free text is declared", () => {
    const undeclaredFields = (categories as readonly Category[]).flatMap(({ events }) =>
      Object.entries(events).flatMap(([type, schema]) =>
        findUndeclaredFields(schema, "").map((path) => `${type}.${path}`),
      ),
    );
    expect(undeclaredFields).to.deep.equal([]);
  });

  it("finds undeclared free text in any schema", () => {
    const schema = z.object({
      ...{ id: uuid, at: instant, day: calendarDate, time: timeOfDay, count: z.int(), kind: z.enum(["a"]) },
      ...{ code: z.string().regex(/^[A-Z]$/), flag: z.boolean(), name: personal("contact", label, "(erased)") },
      ...{ room: notPersonal(label.nullable(), "name of a room"), title: label, comment: label.nullable() },
      ...{ email: z.email().optional(), tags: z.array(z.string()), extra: freeForm, nested: z.object({ text: label }) },
      ...{ either: z.union([z.string(), z.number()]), hash: z.string().length(64), anything: z.unknown() },
    });
    expect(findUndeclaredFields(schema, "")).to.deep.equal([
      ...["title", "comment", "email", "tags[]", "extra", "nested.text", "either", "hash", "anything"],
    ]);
  });

  it("personal data is declared only in direct members of an event's data", () => {
    expect(findPersonalFields("CustomerRegistered")).to.deep.include({ category: "contact" });
    const nestedDeclarations = listEventTypes().flatMap(({ type, schema }) =>
      Object.entries((schema as z.ZodObject).shape)
        .filter(([, field]) => findDeclaration(field as z.ZodType)?.kind !== "notPersonal")
        .flatMap(([name, field]) => findPersonalMembers(field as z.ZodType, `${type}.${name}`, 0)),
    );
    expect(nestedDeclarations).to.deep.equal([]);
  });

  it("every neutral value matches the schema of its field", () => {
    const personalFields = listEventTypes().flatMap(({ type }) => findPersonalFields(type) ?? []);
    expect(personalFields.flatMap(({ fields }) => fields)).to.have.length.above(20);
    for (const { fields, neutralValues, schema } of personalFields) {
      expect(Object.keys(neutralValues)).to.deep.equal(fields.map(({ name }) => name));
      expect(schema.parse(neutralValues)).to.deep.equal(neutralValues);
    }
  });

  it("each category with personal data has an aggregate that names the person", () => {
    const categoriesWithPersons = [
      customerAggregate,
      animalAggregate,
      staffAggregate,
      membershipAggregate,
      auditorAggregate,
      appointmentAggregate,
      queueTicketAggregate,
    ]
      .filter(({ personOf }) => personOf)
      .map(({ category }) => category.name);
    const categoriesWithPersonalData = (categories as readonly Category[])
      .filter(({ events }) => Object.keys(events).some((type) => findPersonalFields(type)))
      .map(({ name }) => name);
    expect(categoriesWithPersons).to.have.members(categoriesWithPersonalData);
  });
});

function listEventTypes(): { type: string; schema: z.ZodType }[] {
  return (categories as readonly Category[]).flatMap(({ events }) =>
    Object.entries(events).map(([type, schema]) => ({ type, schema })),
  );
}

/** Returns the paths of personal fields that are nested deeper than the direct members of an event's data. */
function findPersonalMembers(schema: z.ZodType, path: string, depth: number): string[] {
  if (findDeclaration(schema)?.kind === "personal") return depth === 0 ? [] : [path];
  const { shape, innerType, element } = schema.def as unknown as {
    shape?: Record<string, z.ZodType>;
    innerType?: z.ZodType;
    element?: z.ZodType;
  };
  if (shape) return Object.entries(shape).flatMap(([name, field]) => findPersonalMembers(field, `${path}.${name}`, 1));
  const innerSchema = innerType ?? element;
  return innerSchema ? findPersonalMembers(innerSchema, path, 1) : [];
}
