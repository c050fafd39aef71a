import { v5 as uuidv5 } from "uuid";
import { isOptional } from "../../shared/command-line/option.ts";
import type { StaffCommand } from "./define-command.ts";

const CLINIC_ID = "0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001";

/** Example values that all commands share, by field. Ids that are missing here are derived from field names. */
const EXAMPLE_VALUES: Record<string, unknown> = {
  clinicId: CLINIC_ID,
  scheduledAt: "2027-03-01T09:00:00+01:00",
  allocationStart: "2027-03-01T09:00:00+01:00",
  allocationEnd: "2027-03-01T09:30:00+01:00",
  startsAt: "2027-03-01T09:00:00+01:00",
  endsAt: "2027-03-01T09:30:00+01:00",
  queueDate: "2027-03-01",
};

/**
 * Returns an example of a command's input. It contains the required fields, and the fields of the command's own
 * `example`.
 */
export function createExample({ input, creates, example }: StaffCommand): Record<string, unknown> {
  const fields = Object.entries(input.shape).filter(
    ([name, schema]) => name in example || (name !== creates && !isOptional(schema)),
  );
  return Object.fromEntries(fields.map(([name]) => [name, name in example ? example[name] : requireExample(name)]));
}

/**
 * Returns a field's shared example value. Example ids are derived from the field name, so all examples use the same id.
 */
function requireExample(field: string): unknown {
  const value = EXAMPLE_VALUES[field] ?? (field.endsWith("Id") ? uuidv5(field, CLINIC_ID) : undefined);
  if (value === undefined) throw new Error(`the field ${field} has no example`);
  return value;
}
