#!/usr/bin/env python3
"""Verifies an audit export, a tree head or a proof:

  python3 verify.py EXPORT --key KEY [--clinic ID] [--from TIME] [--to TIME] [--json]
  python3 verify.py --proof FILE --key KEY [--head FILE ...] [--json]

KEY is a file with a JSON Web Key Set, or the thumbprint of a key. Get it from a
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
MAX_BLOCKS = 1024
MAX_INTEGER = 2**53 - 1


class Fault(Exception):
    """A fault of the file. The line is counted from 1, and None in a proof."""

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


def is_event(value):
    """Step 1."""
    return isinstance(value, dict) and isinstance(value.get("position"), str) and isinstance(value.get("id"), str)


def is_manifest_line(value):
    return has_exactly(value, "manifest", "signature") and isinstance(value["signature"], str)


def is_manifest(value):
    members = ("format", "clinicId", "stored", "count", "first", "last", "root", "blocks", "made")
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
        and is_text(value["root"], r"[0-9a-f]{64}")
        and are_blocks(value["blocks"])
        and is_origin(value["made"])
    )


def is_event_reference(value):
    return value is None or (
        has_exactly(value, "position", "id") and is_position(value["position"]) and isinstance(value["id"], str)
    )


def are_blocks(value):
    return (
        has_exactly(value, "lines", "roots")
        and is_integer(value["lines"], 1)
        and int(value["lines"]) & (int(value["lines"]) - 1) == 0
        and isinstance(value["roots"], list)
        and all(is_text(root, r"[0-9a-f]{64}") for root in value["roots"])
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


# Signatures


def read_signature(signature, signature_type, trusted_thumbprints):
    """Steps 6 to 9. Returns the payload. Raises Fault without a line."""
    texts = signature.split(".")
    parts = [decode_base64url(text) for text in texts]
    if len(parts) != 3 or None in parts:
        raise Fault("signature_invalid", None, "the signature does not consist of three base64url texts")
    encoded_header, payload, signature_bytes = parts
    try:
        header = parse_json(encoded_header)
    except NotJson:
        header = None
    if not isinstance(header, dict) or header.get("alg") != "EdDSA" or "crit" in header:
        raise Fault("signature_invalid", None, "the signature has an invalid header")
    key = header.get("jwk")
    if not is_public_key(key) or compute_thumbprint(key) not in trusted_thumbprints:
        raise Fault("key_untrusted", None, "the signature was not made with a trusted key")
    public_key = decode_base64url(key["x"])
    signing_input = (texts[0] + "." + texts[1]).encode("ascii")
    if public_key is None or not is_signature_valid(public_key, signing_input, signature_bytes):
        raise Fault("signature_invalid", None, "the signature is invalid")
    if header.get("typ") != signature_type:
        raise Fault("signature_type_wrong", None, "the signature is not of the type " + signature_type)
    return payload


# Verification of exports


class Verifier:
    """Verifies the lines of an export in their order."""

    def __init__(self, trusted_thumbprints):
        self.trusted_thumbprints = trusted_thumbprints
        self.leaf_hashes = []
        self.first = None
        self.last = None

    def fail(self, code, problem):
        """Raises a fault of the current line."""
        raise Fault(code, len(self.leaf_hashes) + 1, problem)

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
        """Steps 1 and 2."""
        value = self.parse_line(line)
        if not is_event(value):
            if is_manifest_line(value):
                self.fail("manifest_not_last", "the manifest is not the last line")
            self.fail("not_an_event", "the line is not an event")
        self.require_canonical(line, value)
        self.leaf_hashes.append(hash_leaf(line[:-1]))
        self.last = {"position": value["position"], "id": value["id"]}
        if self.first is None:
            self.first = self.last

    def verify_last_line(self, line):
        """Steps 3 to 14. Returns the manifest."""
        value = self.parse_line(line)
        if is_event(value):
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
        if manifest["root"] != compute_root(self.leaf_hashes).hex():
            self.locate_change(manifest["blocks"])
        if payload != write_canonical(value["manifest"]):
            self.fail("manifest_altered", "the manifest differs from the signed manifest")
        if manifest["count"] != len(self.leaf_hashes):
            self.fail("count_mismatch", "the manifest has another number of events than the file")
        if manifest["first"] != self.first or manifest["last"] != self.last:
            self.fail("first_or_last_mismatch", "the manifest names another first or last event")
        return manifest

    def verify_signature(self, signature):
        try:
            return read_signature(signature, "audit-export+jws", self.trusted_thumbprints)
        except Fault as fault:
            self.fail(fault.code, fault.problem)

    def locate_change(self, signed_blocks):
        """Raises the fault of lines that do not have the signed root."""
        width = int(signed_blocks["lines"])
        while len(self.leaf_hashes) > width * MAX_BLOCKS:
            width *= 2
        signed = [bytes.fromhex(root) for root in signed_blocks["roots"]]
        group = width // int(signed_blocks["lines"])
        signed = [compute_root(signed[i : i + group]) for i in range(0, len(signed), group)]
        own = [compute_root(self.leaf_hashes[i : i + width]) for i in range(0, len(self.leaf_hashes), width)]
        equal_count = 0
        while equal_count < min(len(signed), len(own)) and signed[equal_count] == own[equal_count]:
            equal_count += 1
        first, last = equal_count * width + 1, (equal_count + 1) * width
        raise Fault("lines_changed", first, "the first change after signing is in the lines %d to %d" % (first, last))


def check_expectations(manifest, options, line):
    """Compares the clinic and the range with those that the user requested. Raises Fault."""
    stored = manifest["stored"]
    expected_from = None if options.start == "start" else options.start
    mismatches = []
    if options.clinic is not None and options.clinic.lower() != manifest["clinicId"]:
        mismatches.append("the clinic is %s" % manifest["clinicId"])
    if options.start is not None and expected_from != stored["from"]:
        mismatches.append("the range starts at %s" % (stored["from"] or "start"))
    if options.end is not None and options.end != stored["to"]:
        mismatches.append("the range ends at %s" % stored["to"])
    if mismatches:
        raise Fault("unexpected_export", line, "it is not the expected export: " + "; ".join(mismatches))


def parse_expected_time(text):
    """Converts an RFC 3339 time to the form in manifests."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(\.\d{1,3})?([Zz]|[+-]\d\d:\d\d)", text)
    if match is None:
        raise argparse.ArgumentTypeError("must be a time such as 2026-05-04T08:00:00Z")
    day, clock, fraction, offset = match.groups()
    offset = "+00:00" if offset in "Zz" else offset
    milliseconds = ((fraction or ".")[1:] + "000")[:3]
    try:
        time = datetime.datetime.fromisoformat("%sT%s.%s000%s" % (day, clock, milliseconds, offset))
        time = time.astimezone(datetime.timezone.utc)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError("is not a valid time") from None
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + milliseconds + "Z"


def parse_expected_start(text):
    return text if text == "start" else parse_expected_time(text)


# Tree heads and proofs

TREE_HEAD_FORMAT = "clinic-service-audit-tree-head/1"
INCLUSION_FORMAT = "clinic-service-audit-inclusion-proof/1"
CONSISTENCY_FORMAT = "clinic-service-audit-consistency-proof/1"


def hash_leaf(leaf):
    return hashlib.sha256(b"\x00" + leaf).digest()


def hash_node(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def compute_root(hashes):
    """Returns the root hash of a tree from the hashes of its leaves, or of equal subtrees."""
    if not hashes:
        return hashlib.sha256().digest()
    while len(hashes) > 1:
        pairs = [hashes[i : i + 2] for i in range(0, len(hashes), 2)]
        hashes = [hash_node(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return hashes[0]


def compute_root_of_leaf(leaf_hash, index, size, path):
    """Returns the root hash, or None if the path is invalid."""
    n, s, r = index, size - 1, leaf_hash
    if n > s:
        return None
    for h in path:
        if s == 0:
            return None
        if n % 2 == 1 or n == s:
            r = hash_node(h, r)
            while n % 2 == 0 and n != 0:
                n, s = n // 2, s // 2
        else:
            r = hash_node(r, h)
        n, s = n // 2, s // 2
    return r if s == 0 else None


def compute_consistent_roots(from_size, from_root, to_size, path):
    """Returns the roots of both tree heads, or None if the path is invalid."""
    if from_size > to_size:
        return None
    if from_size == to_size:
        return (from_root, from_root) if not path else None
    if from_size & (from_size - 1) == 0:
        path = [from_root] + path
    if not path:
        return None
    n, s = from_size - 1, to_size - 1
    while n % 2 == 1:
        n, s = n // 2, s // 2
    f = t = path[0]
    for h in path[1:]:
        if s == 0:
            return None
        if n % 2 == 1 or n == s:
            f, t = hash_node(h, f), hash_node(h, t)
            while n % 2 == 0 and n != 0:
                n, s = n // 2, s // 2
        else:
            t = hash_node(t, h)
        n, s = n // 2, s // 2
    return (f, t) if s == 0 else None


def is_signed_head(value):
    return has_exactly(value, "treeHead", "signature") and isinstance(value["signature"], str)


def is_tree_head(value):
    return (
        has_exactly(value, "format", "treeId", "size", "root", "logPosition", "at")
        and value["format"] == TREE_HEAD_FORMAT
        and is_text(value["treeId"], r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
        and is_integer(value["size"], 1)
        and is_text(value["root"], r"[0-9a-f]{64}")
        and is_position(value["logPosition"])
        and is_time(value["at"])
    )


def is_path(value):
    return (
        isinstance(value, list) and len(value) <= 64 and all(is_text(text, r"[0-9a-f]{64}") for text in value)
    )


def is_inclusion_proof(value):
    return (
        has_exactly(value, "format", "event", "index", "path", "head")
        and value["format"] == INCLUSION_FORMAT
        and isinstance(value["event"], dict)
        and isinstance(value["event"].get("position"), str)
        and isinstance(value["event"].get("id"), str)
        and is_integer(value["index"], 0)
        and is_path(value["path"])
    )


def is_consistency_proof(value):
    return (
        has_exactly(value, "format", "from", "to", "path")
        and value["format"] == CONSISTENCY_FORMAT
        and is_path(value["path"])
    )


def verify_tree_head(value, trusted_thumbprints):
    """Steps 3 to 6. Returns the tree head. Raises Fault."""
    if not is_signed_head(value):
        raise Fault("not_a_tree_head", None, "there is no signed tree head where one is expected")
    payload = read_signature(value["signature"], "audit-tree-head+jws", trusted_thumbprints)
    try:
        tree_head = parse_json(payload)
        is_canonical = payload == write_canonical(tree_head)
    except NotJson:
        tree_head, is_canonical = None, False
    if not is_tree_head(tree_head) or not is_canonical:
        raise Fault("tree_head_unsupported", None, "the tree head does not have the format " + TREE_HEAD_FORMAT)
    if payload != write_canonical(value["treeHead"]):
        raise Fault("tree_head_altered", None, "the tree head differs from the signed tree head")
    return tree_head


def verify_inclusion(proof, trusted_thumbprints):
    head = verify_tree_head(proof["head"], trusted_thumbprints)
    path = [bytes.fromhex(text) for text in proof["path"]]
    leaf_hash = hash_leaf(write_canonical(proof["event"]))
    root = compute_root_of_leaf(leaf_hash, int(proof["index"]), int(head["size"]), path)
    if root is None or root.hex() != head["root"]:
        raise Fault("path_invalid", None, "the event and the path do not lead to the root of the tree head")
    event = {"position": proof["event"]["position"], "id": proof["event"]["id"]}
    return {"kind": "inclusion-proof", "treeHead": head, "index": proof["index"], "event": event}


def verify_consistency(proof, trusted_thumbprints):
    from_head = verify_tree_head(proof["from"], trusted_thumbprints)
    to_head = verify_tree_head(proof["to"], trusted_thumbprints)
    if from_head["treeId"] != to_head["treeId"]:
        raise Fault("trees_differ", None, "the tree heads belong to different trees")
    path = [bytes.fromhex(text) for text in proof["path"]]
    sizes = int(from_head["size"]), int(to_head["size"])
    roots = compute_consistent_roots(sizes[0], bytes.fromhex(from_head["root"]), sizes[1], path)
    if roots is None or [root.hex() for root in roots] != [from_head["root"], to_head["root"]]:
        raise Fault("path_invalid", None, "the path does not lead from one tree head to the other")
    return {"kind": "consistency-proof", "from": from_head, "treeHead": to_head}


def verify_proof(data, trusted_thumbprints, held_heads):
    """Verifies the bytes of a file. Returns what the file proves. Raises Fault."""
    try:
        value = parse_json(data)
    except NotJson:
        value = None
    if not (is_signed_head(value) or is_inclusion_proof(value) or is_consistency_proof(value)):
        raise Fault("not_a_proof", None, "the file is neither a proof nor a tree head")
    try:
        is_canonical = data == write_canonical(value) + b"\n"
    except NotJson:
        is_canonical = False
    if not is_canonical:
        raise Fault("not_canonical", None, "the file is not in its canonical form")
    if is_signed_head(value):
        result = {"kind": "tree-head", "treeHead": verify_tree_head(value, trusted_thumbprints)}
    elif is_inclusion_proof(value):
        result = verify_inclusion(value, trusted_thumbprints)
    else:
        result = verify_consistency(value, trusted_thumbprints)
    states = [get_state(result[name]) for name in ("from", "treeHead") if name in result]
    if not all(get_state(head) in states for head in held_heads):
        raise Fault("unexpected_tree_head", None, "the file is about another tree head")
    return result


def get_state(head):
    return head["treeId"], head["size"], head["root"]


def read_head_file(name, trusted_thumbprints):
    """Returns the tree head in a file. Raises ValueError."""
    try:
        return verify_tree_head(parse_json(read_file(name)), trusted_thumbprints)
    except (NotJson, Fault) as error:
        raise ValueError("%s is not a verified tree head: %s" % (name, error)) from error


def read_file(name):
    with open(name, "rb") as file:
        return file.read()


# Command line


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


def print_proof(file, result, as_json):
    if as_json:
        print(write_canonical(dict(result, ok=True)).decode("utf-8"))
        return
    text = describe_head(result["treeHead"])
    if result["kind"] == "inclusion-proof":
        text = "event %s is in the %s" % (result["event"]["id"], text)
    if result["kind"] == "consistency-proof":
        text = "the %s starts with all events of the %s" % (text, describe_head(result["from"]))
    print("%s is verified: %s" % (file, text))


def describe_head(head):
    return "tree head of %d events, %s" % (head["size"], head["at"])


def print_fault(file, fault, as_json):
    line = {} if fault.line is None else {"line": fault.line}
    if as_json:
        print(json.dumps(dict({"ok": False, "fault": fault.code, "problem": fault.problem}, **line)))
    place = "" if fault.line is None else "line %d: " % fault.line
    print("%s is not verified: %s%s (%s)" % (file, place, fault.problem, fault.code), file=sys.stderr)


def main(arguments=None):
    """Runs the command line and returns the exit code."""
    parser = argparse.ArgumentParser(description="Verifies an audit export, a tree head or a proof.")
    parser.add_argument("file", help="file with the export; with --proof, the tree head or proof")
    parser.add_argument("--key", required=True, help="file with the trusted key set, or a thumbprint")
    parser.add_argument("--proof", action="store_true", help="the file is a tree head or a proof")
    parser.add_argument("--head", action="append", default=[], help="a tree head that you hold; repeatable")
    parser.add_argument("--clinic", help="expected clinic of the export")
    parser.add_argument(
        "--from", dest="start", type=parse_expected_start, help="expected start of the range, or start"
    )
    parser.add_argument("--to", dest="end", type=parse_expected_time, help="expected end of the range")
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")
    options = parser.parse_args(arguments)
    try:
        thumbprints = read_trusted_thumbprints(options.key)
        if options.proof:
            held_heads = [read_head_file(name, thumbprints) for name in options.head]
            result = verify_proof(read_file(options.file), thumbprints, held_heads)
        else:
            with open(options.file, "rb") as file:
                verifier = Verifier(thumbprints)
                manifest = verifier.verify(file)
            check_expectations(manifest, options, len(verifier.leaf_hashes) + 1)
    except Fault as fault:
        print_fault(options.file, fault, options.json)
        return 3
    except (OSError, ValueError) as error:
        print("invalid input: %s" % error, file=sys.stderr)
        return 2
    except RecursionError:
        print("invalid input: a line is nested too deeply", file=sys.stderr)
        return 2
    if options.proof:
        print_proof(options.file, result, options.json)
    else:
        print_result(options.file, manifest, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
