# Register the URL of your receiver. The response contains the signing secret, which is shown only once.
ENDPOINT=$(jq --null-input --arg url "$WEBHOOK_URL" \
  '{url: $url, events: ["appointment.created", "appointment.updated"]}')
RESPONSE=$(curl --silent --show-error --fail-with-body --header "Authorization: Bearer $TOKEN" \
  --header "X-SERVICE-Clinic-ID: $CLINIC_ID" --json "$ENDPOINT" "$API/webhook-endpoints")
ENDPOINT_ID=$(echo "$RESPONSE" | jq -r .endpoint.id)
WEBHOOK_SECRET=$(echo "$RESPONSE" | jq -r .secret)
