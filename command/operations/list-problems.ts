import type { DomainError, ErrorDetail } from "../../shared/domain/domain-error.ts";
import type { StaffCommand } from "./define-command.ts";

/** Field that was refused, by error code. Contains only codes that do not include the name of the field. */
const FIELD_BY_CODE: Record<string, string> = {
  allocation_empty: "allocationEnd",
  allocation_too_long: "allocationEnd",
  expiry_without_demo: "demoExpiresAt",
  hold_ends_before_start: "endsAt",
  hold_expired: "expiresAt",
  not_an_administrator: "membershipId",
  rule_ends_before_start: "endsAt",
  rule_never_valid: "validUntil",
};

/**
 * Returns the fields that a domain rule has refused, for the error response. If no single field is to blame, for
 * example in an illegal status transition, returns the field with the id of the changed object.
 */
export function listProblems({ code, message, details }: DomainError, command: StaffCommand): ErrorDetail[] {
  return details ?? [{ path: findField(code, command), message }];
}

/** Finds the field for an error code, such as `branchId` for `branch_not_found`. */
function findField(code: string, { input }: StaffCommand): string {
  const fields = Object.keys(input.shape);
  const names = code.split("_").flatMap((word) => [word, `${word}Id`, `${word}Ids`]);
  return [FIELD_BY_CODE[code] ?? "", ...names].find((name) => fields.includes(name)) ?? (fields[0] as string);
}
