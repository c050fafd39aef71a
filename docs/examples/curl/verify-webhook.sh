# Verifies a stored delivery. DELIVERY_ID, TIMESTAMP and SIGNATURE are the values of the headers webhook-id,
# webhook-timestamp and webhook-signature. BODY_FILE contains the body, byte for byte.
AGE=$(($(date +%s) - TIMESTAMP))
if [ "$AGE" -gt 300 ] || [ "$AGE" -lt -300 ]; then
  echo "The timestamp is more than five minutes away." >&2
  exit 1
fi
KEY=$(printf %s "${WEBHOOK_SECRET#whsec_}" | base64 -d | od -An -v -tx1 | tr -d ' \n')
EXPECTED=v1,$({ printf %s. "$DELIVERY_ID" "$TIMESTAMP"; cat "$BODY_FILE"; } |
  openssl dgst -sha256 -mac HMAC -macopt "hexkey:$KEY" -binary | base64)
case " $SIGNATURE " in
  *" $EXPECTED "*) echo "The signature is valid." ;;
  *) echo "The signature is not valid." >&2; exit 1 ;;
esac
