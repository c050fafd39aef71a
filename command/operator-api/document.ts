import { z } from "zod";
import { formats } from "../../shared/domain/events/fields.ts";
import { createExample } from "../operations/command-example.ts";
import { clinicCommands } from "../operations/commands.ts";
import type { StaffCommand } from "../operations/define-command.ts";
import { getActingMemberHeader, MAX_REQUESTS_PER_MINUTE } from "./authorize.ts";
import { createBodySchema } from "./run-command.ts";

export const COMMANDS_PATH = "/operations/v1/commands";

/** Returns the path segment of a command, such as `appointment-confirm`. */
export function toPathName({ name }: StaffCommand): string {
  return name.replaceAll(" ", "-");
}

const ERRORS = {
  400: "The body is not JSON.",
  401: "The credential is missing, wrong, expired or revoked.",
  403: "The credential's scope does not contain the clinic or the command, or the acting member may not run it.",
  409: "A rule refuses the command, the key was used for another request (`idempotency_conflict`), or the answer to an earlier request with this key had a secret (`secret_already_shown`).",
  413: "The body is too large.",
  415: "The content type is not JSON.",
  422: "The body or a header is invalid. `details` names the fields.",
  429: `The credential has sent more than ${MAX_REQUESTS_PER_MINUTE} requests in a minute.`,
  503: "A server is unavailable. Repeat the request with the same key.",
};

const DESCRIPTION = `Commands of a clinic's own systems. A credential is issued with \`clinic operator register\`.

The service recognizes a repeated request by its Idempotency-Key and the events that the request has recorded, and sends
the first answer again. A request that changed nothing is decided again, and so is one whose events precede the last 200
of their stream.

The response contains the log position of the change. A read that sends the position waits for it.`;

/** Creates the OpenAPI document of the operations API from the declarations of its commands. */
export function createOperatorDocument(brand: string): object {
  return {
    openapi: "3.1.0",
    info: { title: "Operations API", version: "1", description: DESCRIPTION },
    security: [{ operator: [] }],
    paths: Object.fromEntries(
      clinicCommands.map((command) => [`${COMMANDS_PATH}/${toPathName(command)}`, { post: describe(command) }]),
    ),
    components: {
      securitySchemes: { operator: { type: "http", scheme: "bearer" } },
      parameters: {
        idempotencyKey: {
          ...{ name: "Idempotency-Key", in: "header", required: true },
          schema: { type: "string", minLength: 8, maxLength: 128 },
        },
        actingMember: {
          ...{ name: getActingMemberHeader(brand), in: "header" },
          description: "Id of the membership on whose behalf the system acts.",
          schema: { type: "string", format: "uuid" },
        },
      },
      schemas: {
        Error: {
          type: "object",
          required: ["ok", "error", "correlationId"],
          properties: {
            ok: { const: false },
            error: { type: "string" },
            correlationId: { type: "string", format: "uuid" },
            details: {
              type: "array",
              items: { type: "object", properties: { path: { type: "string" }, message: { type: "string" } } },
            },
          },
        },
      },
    },
  };
}

function describe(command: StaffCommand): object {
  const { name, summary, creates, permission, resultId } = command;
  const errors = Object.entries(ERRORS).map(([status, description]) => [
    status,
    { description, content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } } },
  ]);
  const result = {
    type: "object",
    required: ["ok", resultId, "events", "position"],
    properties: {
      ok: { const: true },
      [resultId]: { type: "string", format: "uuid" },
      events: { type: "array", items: { type: "string" }, description: "Types of the recorded events." },
      position: { type: ["string", "null"], description: "Log position; null if nothing changed." },
    },
  };
  const content = { "application/json": { schema: result } };
  return {
    operationId: toPathName(command),
    tags: [name.split(" ")[0]],
    summary,
    description:
      permission === "operator"
        ? "No member may run this command, so it must not name an acting member."
        : `An acting member needs the permission \`${permission}\`.`,
    parameters: ["idempotencyKey", "actingMember"].map((parameter) => ({
      $ref: `#/components/parameters/${parameter}`,
    })),
    requestBody: {
      required: true,
      content: {
        "application/json": { schema: toJsonSchema(createBodySchema(command)), example: createExample(command) },
      },
    },
    responses: {
      200: { description: creates === undefined ? "Done, or nothing to change." : "Nothing to change.", content },
      ...(creates !== undefined && { 201: { description: "Created.", content } }),
      ...Object.fromEntries(errors),
    },
  };
}

function toJsonSchema(schema: z.ZodType): object {
  const { $schema: _, ...jsonSchema } = z.toJSONSchema(schema, {
    io: "input",
    unrepresentable: "any",
    override: ({ zodSchema, jsonSchema }) =>
      Object.assign(jsonSchema, formats.get(zodSchema as z.core.$ZodType as z.ZodType)),
  });
  return jsonSchema;
}
