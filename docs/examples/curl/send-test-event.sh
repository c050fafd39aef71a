# Request a test event, which the service sends only to this endpoint.
curl --silent --show-error --fail-with-body --request POST --header "Authorization: Bearer $TOKEN" \
  --header "X-SERVICE-Clinic-ID: $CLINIC_ID" "$API/webhook-endpoints/$ENDPOINT_ID/test" | jq .
