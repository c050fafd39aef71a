# Exchange the credentials for an access token. The token is valid for 15 minutes.
TOKEN=$(curl --silent --show-error --fail-with-body --user "$CLIENT_ID:$CLIENT_SECRET" \
  --data grant_type=client_credentials "$API/oauth/token" | jq -r '.access_token // error(.error)')
