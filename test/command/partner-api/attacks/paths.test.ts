import { expect } from "chai";
import { expectRefusal } from "../../../support/raw-http.ts";
import { createAttacker, JSON_TYPE } from "./attacker.ts";

describe("attacks on the partner API with paths and methods", () => {
  const attacker = createAttacker();
  const { createBody, getOwnHeaders, createKeyHeader, send } = attacker;

  describe("by paths", () => {
    const targets = [
      ...["/production%2Fv1/appointments", "/production/v1%2fappointments", "/production/v1/appointments/"],
      ...["//production/v1/appointments", "/production//v1/appointments", "/production/v1//appointments"],
      ...["/PRODUCTION/v1/appointments", "/Production/V1/Appointments", "/production/v1/appointments%00"],
      ...[
        "/production/v1/./appointments",
        "/production/v1/x/../appointments",
        "/sandbox/../production/v1/appointments",
      ],
      ...["/production/v1/%2e%2e/v1/appointments", "/production/v1/appointments;a=b", "/production/v1/appointments%"],
      ...["/production/v2/appointments", "/production/v1", "/production/v1/", "/staging/v1/appointments"],
      ...["/production/v1/webhook-endpoints/x/%", "*", "/", "/%", "/\\..\\..\\etc"],
      ...[
        "http://[::1",
        "http://",
        "http://other/",
        "other:80",
        "?",
        "#",
        "/#",
        "//",
        "///",
        "/..",
        "http:///production/v1",
      ],
    ];
    for (const target of targets) {
      it(`a POST request to ${target} returns 404 or 400`, async () => {
        const response = await send(
          `POST ${target}`,
          [...getOwnHeaders(), createKeyHeader(), JSON_TYPE],
          JSON.stringify(createBody()),
        );
        if (response.status === 400) expectRefusal(response, 400, "malformed_request");
        else expectRefusal(response, 404, "not_found");
      });
    }

    it("a POST request whose target is an absolute URL is handled by the path of the URL", async () => {
      const target = "http://elsewhere.test/production/v1/appointments?x=1";
      const response = await send(
        `POST ${target}`,
        [...getOwnHeaders(), createKeyHeader(), JSON_TYPE],
        JSON.stringify(createBody()),
      );
      expect(response.status).to.equal(201);
    });

    it("DELETE of an endpoint with a malformed id returns 404", async () => {
      for (const id of [
        "..",
        "%2e%2e",
        "x",
        "%00",
        "%2F",
        "%E0%A4%A",
        "a".repeat(10_000),
        "%F0%9F%90%BE",
        "__proto__",
      ]) {
        const response = await send(`DELETE /production/v1/webhook-endpoints/${id}`, getOwnHeaders());
        expect([response.status, response.body?.ok], id).to.deep.equal([404, false]);
      }
    });
  });

  describe("by methods", () => {
    it("a method override in a header or a parameter is ignored", async () => {
      const response = await send("GET /production/v1/appointments?_method=POST", [
        ...getOwnHeaders(),
        "X-HTTP-Method-Override: POST",
      ]);
      expectRefusal(response, 405, "method_not_allowed");
    });
  });
});
