#!/usr/bin/env python3
"""Verifies an audit export: python3 verify.py EXPORT --keys KEYS [--json]

KEYS is a file with a JSON Web Key Set, or the thumbprint of a key. Get it from a
source that you trust, not from the person who gave you the export.

Exit codes: 0 verified, 2 invalid input, 3 not verified.

This program needs only Python 3.7 or newer. It follows docs/audit-format.md, and
the numbers of steps in comments are those of that page.
"""

import argparse
import base64
import datetime
import decimal
import hashlib
import json
import re
import sys

FORMAT = "clinic-service-audit-export/1"
SEED = hashlib.sha256(b"clinic-service audit export 1").digest()
EVENT_OFFSET = 84
MAX_MARKS = 4096
MAX_INTEGER = 2**53 - 1


class Fault(Exception):
    """A fault of the export. The line is counted from 1."""

    def __init__(self, code, line, problem):
        super().__init__(problem)
        self.code, self.line, self.problem = code, line, problem


class NotJson(Exception):
    """The text is not JSON, or canonical JSON cannot represent its value."""


# JSON and its canonical form


def parse_json(text):
    """Parses bytes or text as JSON. All numbers become floats."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return json.loads(text, parse_int=float, parse_float=float, parse_constant=refuse_constant)
    except ValueError as error:
        raise NotJson() from error


def refuse_constant(name):
    """Refuses NaN and Infinity, which the json module accepts and JSON does not have."""
    raise NotJson(name)


ESCAPES = {code: "\\u%04x" % code for code in range(0x20)}
ESCAPES.update({8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 0x22: '\\"', 0x5C: "\\\\"})


def write_canonical(value):
    """Returns the canonical form of a parsed value as bytes."""
    try:
        return format_value(value).encode("utf-8")
    except UnicodeEncodeError as error:  # a lone surrogate
        raise NotJson() from error


def format_value(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_number(value)
    if isinstance(value, str):
        return '"' + value.translate(ESCAPES) + '"'
    if isinstance(value, list):
        return "[" + ",".join(map(format_value, value)) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return "{" + ",".join(format_value(name) + ":" + format_value(value[name]) for name in names) + "}"


def format_number(value):
    if value in (float("inf"), float("-inf")):
        raise NotJson("a number is too large for a double")
    if value == 0:
        return "0"
    # repr writes the shortest digits that distinguish the double.
    sign, digits, exponent = decimal.Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits))
    d = text.rstrip("0")
    k, n = len(d), len(text) + exponent
    return ("-" if sign else "") + format_digits(d, k, n)


def format_digits(d, k, n):
    if k <= n <= 21:
        return d + "0" * (n - k)
    if 0 < n <= 21:
        return d[:n] + "." + d[n:]
    if -6 < n <= 0:
        return "0." + "0" * -n + d
    mantissa = d[0] + ("." + d[1:] if k > 1 else "")
    return mantissa + ("e+%d" % (n - 1) if n > 0 else "e-%d" % (1 - n))


# Ed25519 (RFC 8032, section 5.1)

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
SQRT_MINUS_1 = pow(2, (P - 1) // 4, P)


def add_points(left, right):
    """Adds points in extended coordinates (x, y, z, t), where t = x y / z."""
    a = (left[1] - left[0]) * (right[1] - right[0]) % P
    b = (left[1] + left[0]) * (right[1] + right[0]) % P
    c = 2 * left[3] * right[3] * D % P
    d = 2 * left[2] * right[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def multiply_point(scalar, point):
    result = (0, 1, 1, 0)
    while scalar > 0:
        if scalar & 1:
            result = add_points(result, point)
        point = add_points(point, point)
        scalar >>= 1
    return result


def encode_point(point):
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | ((x & 1) << 255)).to_bytes(32, "little")


def decode_point(encoded):
    """Returns the point, or None if the bytes are not a point."""
    number = int.from_bytes(encoded, "little")
    sign, y = number >> 255, number & ((1 << 255) - 1)
    if y >= P:
        return None
    x_squared = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x_squared, (P + 3) // 8, P)
    if (x * x - x_squared) % P != 0:
        x = x * SQRT_MINUS_1 % P
    if (x * x - x_squared) % P != 0 or (x == 0 and sign == 1):
        return None
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


BASE_POINT = decode_point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def is_signature_valid(public_key, message, signature):
    if len(public_key) != 32 or len(signature) != 64:
        return False
    point, s = decode_point(public_key), int.from_bytes(signature[32:], "little")
    if point is None or s >= ORDER:
        return False
    digest = hashlib.sha512(signature[:32] + public_key + message).digest()
    scalar = int.from_bytes(digest, "little") % ORDER
    x, y, z, t = multiply_point(scalar, point)
    difference = add_points(multiply_point(s, BASE_POINT), (-x % P, y, z, -t % P))
    return encode_point(difference) == signature[:32]


# Keys


def encode_base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decode_base64url(text):
    """Returns the bytes, or None if the text is not base64url in its only form."""
    if not re.fullmatch(r"[A-Za-z0-9_-]*", text) or len(text) % 4 == 1:
        return None
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return data if encode_base64url(data) == text else None


def is_public_key(value):
    return (
        isinstance(value, dict)
        and value.get("kty") == "OKP"
        and value.get("crv") == "Ed25519"
        and isinstance(value.get("x"), str)
    )


def compute_thumbprint(key):
    text = '{"crv":"Ed25519","kty":"OKP","x":%s}' % format_value(key["x"])
    return encode_base64url(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())


def read_trusted_thumbprints(keys):
    """Returns the trusted thumbprints. Raises ValueError for invalid input."""
    if re.fullmatch(r"[A-Za-z0-9_-]{43}", keys):
        return {keys}  # never read as the name of a file, which an attacker could provide
    with open(keys, "rb") as file:
        try:
            key_set = parse_json(file.read())
        except NotJson:
            key_set = None
    listed_keys = key_set.get("keys") if isinstance(key_set, dict) else None
    if not isinstance(listed_keys, list) or not listed_keys or not all(map(is_public_key, listed_keys)):
        raise ValueError("%s is neither a thumbprint nor a file with a key set of Ed25519 keys" % keys)
    return set(map(compute_thumbprint, listed_keys))


# Forms of lines and manifests


def has_exactly(value, *names):
    return isinstance(value, dict) and set(value) == set(names)


def is_text(value, pattern):
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def is_integer(value, minimum):
    return isinstance(value, float) and value.is_integer() and minimum <= value <= MAX_INTEGER


def is_time(value):
    if not is_text(value, r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"):
        return False
    try:
        datetime.datetime.fromisoformat(value[:-1])
        return True
    except ValueError:
        return False


def is_position(value):
    return is_text(value, r"[0-9]+")


def is_event_line(value):
    """Step 1."""
    if not has_exactly(value, "chain", "event") or not is_text(value["chain"], r"[0-9a-f]{64}"):
        return False
    event = value["event"]
    return isinstance(event, dict) and isinstance(event.get("position"), str) and isinstance(event.get("id"), str)


def is_manifest_line(value):
    return has_exactly(value, "manifest", "signature") and isinstance(value["signature"], str)


def is_manifest(value):
    members = ("format", "clinicId", "stored", "count", "first", "last", "chain", "marks", "made")
    return (
        has_exactly(value, *members)
        and value["format"] == FORMAT
        and is_text(value["clinicId"], r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
        and has_exactly(value["stored"], "from", "to")
        and (value["stored"]["from"] is None or is_time(value["stored"]["from"]))
        and is_time(value["stored"]["to"])
        and is_integer(value["count"], 0)
        and is_event_reference(value["first"])
        and is_event_reference(value["last"])
        and is_text(value["chain"], r"[0-9a-f]{64}")
        and has_marks(value["marks"])
        and is_origin(value["made"])
    )


def is_event_reference(value):
    return value is None or (
        has_exactly(value, "position", "id") and is_position(value["position"]) and isinstance(value["id"], str)
    )


def has_marks(value):
    return (
        has_exactly(value, "every", "links")
        and is_integer(value["every"], 1)
        and int(value["every"]) & (int(value["every"]) - 1) == 0
        and isinstance(value["links"], list)
        and all(is_text(mark, r"[0-9a-f]{16}") for mark in value["links"])
    )


def is_origin(value):
    return (
        has_exactly(value, "at", "by", "accessId", "logEnd")
        and is_time(value["at"])
        and has_exactly(value["by"], "type", "id")
        and all(isinstance(text, str) for text in value["by"].values())
        and isinstance(value["accessId"], str)
        and is_position(value["logEnd"])
    )


# Verification


class Verifier:
    """Verifies the lines of an export in their order."""

    def __init__(self, trusted_thumbprints):
        self.trusted_thumbprints = trusted_thumbprints
        self.links = []  # 32 bytes each
        self.first = None
        self.last = None

    def fail(self, code, problem):
        """Raises a fault of the current line."""
        raise Fault(code, len(self.links) + 1, problem)

    def verify(self, lines):
        """Returns the manifest. Raises Fault."""
        previous_line = None
        for line in lines:
            if previous_line is not None:
                self.verify_event_line(previous_line)
            previous_line = line
        if previous_line is None:
            self.fail("manifest_missing", "the file is empty")
        return self.verify_last_line(previous_line)

    def parse_line(self, line):
        """Returns the parsed line, or None if it is not JSON."""
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            self.fail("invalid_utf8", "the line is not valid UTF-8")
        try:
            return parse_json(text)
        except NotJson:
            return None

    def require_canonical(self, line, value):
        try:
            if line == write_canonical(value) + b"\n":
                return
        except NotJson:
            pass
        self.fail("not_canonical", "the line is not in its canonical form")

    def verify_event_line(self, line):
        """Steps 1 to 3."""
        value = self.parse_line(line)
        if not is_event_line(value):
            if is_manifest_line(value):
                self.fail("manifest_not_last", "the manifest is not the last line")
            self.fail("not_an_event", "the line is not an event")
        self.require_canonical(line, value)
        previous_link = self.links[-1] if self.links else SEED
        link = hashlib.sha256(previous_link + line[EVENT_OFFSET:-2]).digest()
        if link.hex() != value["chain"]:
            self.fail("chain_mismatch", "the line does not fit the hash chain")
        self.links.append(link)
        self.last = {"position": value["event"]["position"], "id": value["event"]["id"]}
        if self.first is None:
            self.first = self.last

    def verify_last_line(self, line):
        """Steps 4 to 15. Returns the manifest."""
        value = self.parse_line(line)
        if is_event_line(value):
            self.verify_event_line(line)
            self.fail("manifest_missing", "the manifest is missing, and events may be missing")
        if not is_manifest_line(value):
            self.fail("not_a_manifest", "the line is neither an event nor the manifest")
        self.require_canonical(line, value)
        payload = self.verify_signature(value["signature"])
        try:
            manifest = parse_json(payload)
        except NotJson:
            manifest = None
        if not is_manifest(manifest):
            self.fail("manifest_unsupported", "the manifest does not have the format " + FORMAT)
        if manifest["chain"] != (self.links[-1] if self.links else SEED).hex():
            self.locate_change(manifest["marks"])
        if payload != write_canonical(value["manifest"]):
            self.fail("manifest_altered", "the manifest differs from the signed manifest")
        if manifest["count"] != len(self.links):
            self.fail("count_mismatch", "the manifest has another number of events than the file")
        if manifest["first"] != self.first or manifest["last"] != self.last:
            self.fail("first_or_last_mismatch", "the manifest names another first or last event")
        return manifest

    def verify_signature(self, signature):
        """Steps 7 to 10. Returns the payload."""
        texts = signature.split(".")
        parts = [decode_base64url(text) for text in texts]
        if len(parts) != 3 or None in parts:
            self.fail("signature_invalid", "the signature does not consist of three base64url texts")
        encoded_header, payload, signature_bytes = parts
        try:
            header = parse_json(encoded_header)
        except NotJson:
            header = None
        if not isinstance(header, dict) or header.get("alg") != "EdDSA" or "crit" in header:
            self.fail("signature_invalid", "the signature has an invalid header")
        key = header.get("jwk")
        if not is_public_key(key) or compute_thumbprint(key) not in self.trusted_thumbprints:
            self.fail("key_untrusted", "the signature was not made with a trusted key")
        public_key = decode_base64url(key["x"])
        signing_input = (texts[0] + "." + texts[1]).encode("ascii")
        if public_key is None or not is_signature_valid(public_key, signing_input, signature_bytes):
            self.fail("signature_invalid", "the signature is invalid")
        if header.get("typ") != "audit-export+jws":
            self.fail("signature_type_wrong", "the signature is not for an audit export")
        return payload

    def locate_change(self, signed_marks):
        """Raises the fault of a hash chain that is valid but not signed."""
        file_interval = 1
        while len(self.links) // file_interval > MAX_MARKS:
            file_interval *= 2
        signed_interval = int(signed_marks["every"])
        interval = max(file_interval, signed_interval)
        step = interval // signed_interval
        signed = signed_marks["links"][step - 1 :: step]
        own = [link.hex()[:16] for link in self.links[interval - 1 :: interval]]
        equal_count = 0
        while equal_count < min(len(signed), len(own)) and signed[equal_count] == own[equal_count]:
            equal_count += 1
        first, last = equal_count * interval + 1, (equal_count + 1) * interval
        problem = "the first change after signing is in the lines %d to %d" % (first, last)
        raise Fault("chain_not_signed", first, problem)


def print_result(file, manifest, as_json):
    if as_json:
        print(write_canonical({"ok": True, "manifest": manifest}).decode("utf-8"))
        return
    stored = manifest["stored"]
    print("%s is complete and unaltered" % file)
    print("  clinic  %s" % manifest["clinicId"])
    print("  stored  %s to %s" % (stored["from"] or "from the beginning", stored["to"]))
    print("  events  %d" % manifest["count"])
    print("Compare the clinic and the range with those that you requested.")


def print_fault(file, fault, as_json):
    if as_json:
        print(json.dumps({"ok": False, "line": fault.line, "fault": fault.code, "problem": fault.problem}))
    details = (file, fault.line, fault.problem, fault.code)
    print("%s is not verified: line %d: %s (%s)" % details, file=sys.stderr)


def main(arguments=None):
    """Runs the command line and returns the exit code."""
    parser = argparse.ArgumentParser(description="Verifies an audit export.")
    parser.add_argument("export", help="file with the export")
    parser.add_argument("--keys", required=True, help="file with the trusted key set, or a thumbprint")
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")
    options = parser.parse_args(arguments)
    try:
        thumbprints = read_trusted_thumbprints(options.keys)
        with open(options.export, "rb") as file:
            manifest = Verifier(thumbprints).verify(file)
    except Fault as fault:
        print_fault(options.export, fault, options.json)
        return 3
    except (OSError, ValueError) as error:
        print("invalid input: %s" % error, file=sys.stderr)
        return 2
    except RecursionError:
        print("invalid input: a line is nested too deeply", file=sys.stderr)
        return 2
    print_result(options.export, manifest, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
