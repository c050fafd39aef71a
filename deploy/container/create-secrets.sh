#!/bin/sh
# Creates the secrets for compose.yaml: passwords, signing keys, a private certificate authority, and a certificate for
# each server. Needs openssl. Never overwrites an existing folder.
#
#     create-secrets.sh [folder]     default: the folder `secrets` next to this script
set -eu
umask 077

folder=${1:-$(dirname "$0")/secrets}
if [ -e "$folder" ]; then
  echo "$folder already exists. Delete it only if no data was created with these secrets." >&2
  exit 1
fi
mkdir -p "$folder"
cd "$folder"

CERTIFICATE_DAYS=825
RSA="-algorithm RSA -pkeyopt rsa_keygen_bits:2048"
EC="-algorithm EC -pkeyopt ec_paramgen_curve:P-256"

password() { openssl rand -hex 24; }
base64url() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }

# Writes a private JWK Set with one Ed25519 key. The last 32 bytes of the DER encodings are the key.
signing_keys() {
  openssl genpkey -algorithm ed25519 -outform DER -out key.der
  private=$(tail -c 32 key.der | base64url)
  public=$(openssl pkey -inform DER -in key.der -pubout -outform DER | tail -c 32 | base64url)
  rm key.der
  printf '{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"%s","use":"sig","alg":"EdDSA","d":"%s","x":"%s"}]}\n' \
    "$1-$(openssl rand -hex 4)" "$private" "$public"
}

# Creates the key and the certificate of a server: certificate <name> <options of openssl genpkey>. The name is the
# server's service name in compose.yaml.
certificate() {
  name=$1
  shift
  openssl genpkey "$@" -out "$name.key" 2>/dev/null
  openssl req -new -key "$name.key" -subj "/CN=$name" -out server.csr
  cat > extensions <<EXTENSIONS
basicConstraints = CA:FALSE
keyUsage = digitalSignature, keyEncipherment
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = DNS:$name
EXTENSIONS
  openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days $CERTIFICATE_DAYS \
    -extfile extensions -out "$name.crt" 2>/dev/null
  rm server.csr extensions
}

openssl genpkey $RSA -out ca.key 2>/dev/null
openssl req -x509 -new -key ca.key -subj "/CN=clinic-service" -days 3650 -out ca.crt
certificate eventstore $RSA # EventStoreDB accepts only RSA keys
certificate postgres $EC
certificate nats $EC

eventstore_password=$(password)
cat > eventstore.env <<ENVIRONMENT
EVENTSTORE_DEFAULT_ADMIN_PASSWORD=$eventstore_password
EVENTSTORE_DEFAULT_OPS_PASSWORD=$(password)
ENVIRONMENT
echo "esdb://admin:$eventstore_password@eventstore:2113?tlsCAFile=/run/secrets/ca.crt" > eventstore-url

# nats-server reads a value that starts with a digit as a number.
nats_password=n$(password)
echo "NATS_PASSWORD=$nats_password" > nats.env
echo "tls://clinic:$nats_password@nats:4222" > nats-url

password > postgres-password
echo "CREATE ROLE clinic_command; CREATE ROLE clinic_query; CREATE ROLE clinic_audit;" > postgres-roles.sql
for service in projection command query audit; do
  postgres_password=$(password)
  echo "CREATE ROLE login_$service LOGIN PASSWORD '$postgres_password';" >> postgres-roles.sql
  echo "postgres://login_$service:$postgres_password@postgres/clinic?sslmode=verify-full&sslrootcert=/run/secrets/ca.crt" \
    > "database-url-$service"
done
cat >> postgres-roles.sql <<'SQL'
GRANT clinic_command TO login_command;
GRANT clinic_query TO login_query;
GRANT clinic_audit TO login_audit;
CREATE DATABASE clinic OWNER login_projection ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE clinic FROM PUBLIC;
GRANT CONNECT ON DATABASE clinic TO clinic_command, clinic_query, clinic_audit;
SQL

signing_keys token > token-signing-keys
signing_keys audit > audit-signing-keys
key_id=webhook-$(openssl rand -hex 4)
printf '{"current":"%s","keys":{"%s":"%s"}}\n' "$key_id" "$key_id" "$(openssl rand -base64 32)" > webhook-secret-keys

rm -f ca.srl
# The unprivileged users of the containers read these files. On the host, only the owner of the folder can enter it.
chmod 644 ./*
chmod 600 ca.key
echo "Created the secrets in $folder. Write the secret that signs portal sessions to $folder/portal-jwt-secret."
