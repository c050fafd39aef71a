import base64
import hmac
import time


def is_authentic(secret: str, id: str, timestamp: str, signatures: str, body: bytes) -> bool:
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, "sha256")
    expected = b"v1," + base64.b64encode(digest)
    return any(hmac.compare_digest(signature, expected) for signature in signatures.encode().split())
