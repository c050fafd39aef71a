#!/bin/sh
# Creates passwords, signing keys, a private certificate authority, a certificate for each server, and connection
# strings. Needs openssl. In an existing folder, creates nothing: checks that no file is missing, and sets the modes.
#
#     create-secrets.sh [folder]          for compose.yaml; default: the folder `secrets` next to this script
#     create-secrets.sh folder host...    for machines (see ../machines/README.md): each host runs EventStoreDB, NATS and
#                                         Postgres
set -eu
umask 077

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/secrets}
[ $# -eq 0 ] || shift

# Lists the files that the installation reads: list_files [host]...
list_files() {
  echo eventstore.env
  echo nats.env
  if [ $# -eq 0 ]; then
    sed -n 's|.*{ file: secrets/\(.*\) }$|\1|p' "$here/compose.yaml"
  else
    sed -n 's|^[A-Z_]*=/etc/clinic/||p' "$here"/../machines/settings/*.env | sort -u
    printf '%s\n' postgres-roles.sql postgres-replication-password
    for host; do printf '%s\n' "$host.crt" "$host.key"; done
  fi
}

# Fails if a file is missing or empty, and says where it comes from. An engine creates a folder in place of a missing file.
check_files() {
  status=0
  for name in $(list_files "$@"); do
    if [ -f "$name" ] && [ -s "$name" ]; then continue; fi
    case $name in
      portal-jwt-secret) source="the secret with which your login service signs the portal's sessions, for example the JWT secret of the Supabase project" ;;
      grafana-password) source="a password of your choice" ;;
      *) source="your backup of this folder" ;;
    esac
    echo "$folder/$name is missing or empty. Source: $source." >&2
    status=1
  done
  # The unprivileged users of the containers read these files. On the host, only the owner of the folder can enter it.
  [ $# -gt 0 ] || find . -type f ! -name ca.key -exec chmod 644 {} +
  return $status
}

if [ -e "$folder" ]; then
  cd "$folder"
  check_files "$@" || exit 1
  echo "$folder contains all secrets. Nothing was changed."
  exit
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

# Writes a set of encryption keys with one key.
encryption_keys() {
  key_id=$1-$(openssl rand -hex 4)
  printf '{"current":"%s","keys":{"%s":"%s"}}\n' "$key_id" "$key_id" "$(openssl rand -base64 32)"
}

# Creates the key and the certificate of a server: certificate <host name> <common name> <options of openssl genpkey>
certificate() {
  name=$1
  common_name=$2
  shift 2
  openssl genpkey "$@" -out "$name.key" 2>/dev/null
  openssl req -new -key "$name.key" -subj "/CN=$common_name" -out server.csr
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

# Writes the hosts as host:port,host:port: addresses <port> <host>...
addresses() {
  port=$1
  shift
  printf "%s:$port," "$@" | sed 's/,$//'
}

# EventStoreDB accepts only RSA keys. The nodes of a cluster accept each other only if their certificates have the same
# common name.
if [ $# -eq 0 ]; then
  ca_file=/run/secrets/ca.crt
  certificate eventstore eventstore $RSA
  certificate postgres postgres $EC
  certificate nats nats $EC
  eventstore_hosts=eventstore:2113
  postgres_hosts=postgres/clinic
  nats_hosts=nats
  target_session_attrs=
else
  ca_file=/etc/clinic/ca.crt
  for host; do certificate "$host" clinic-node $RSA; done
  eventstore_hosts=$(addresses 2113 "$@")
  postgres_hosts=$(addresses 5432 "$@")/clinic
  nats_hosts=$*
  target_session_attrs='target_session_attrs=read-write&'
fi

eventstore_password=$(password)
cat > eventstore.env <<ENVIRONMENT
EVENTSTORE_DEFAULT_ADMIN_PASSWORD=$eventstore_password
EVENTSTORE_DEFAULT_OPS_PASSWORD=$(password)
ENVIRONMENT
echo "esdb://admin:$eventstore_password@$eventstore_hosts?tlsCAFile=$ca_file" > eventstore-url
if [ $# -gt 0 ]; then
  mv eventstore-url eventstore-admin-url
  user_password=$(password)
  printf '{"loginName":"clinic","fullName":"Clinic Service","password":"%s","groups":["clinic"]}\n' "$user_password" \
    > eventstore-user.json
  echo "esdb://clinic:$user_password@$eventstore_hosts?tlsCAFile=$ca_file" > eventstore-url
fi

# nats-server reads a value that starts with a digit as a number.
nats_password=n$(password)
echo "NATS_PASSWORD=$nats_password" > nats.env
printf "tls://clinic:$nats_password@%s:4222," $nats_hosts | sed 's/,$//' > nats-url

if [ $# -eq 0 ]; then
  password > postgres-password
  password > grafana-password
fi
echo "CREATE ROLE clinic_command; CREATE ROLE clinic_query; CREATE ROLE clinic_audit;" > postgres-roles.sql
for service in projection command query audit; do
  postgres_password=$(password)
  echo "CREATE ROLE login_$service LOGIN PASSWORD '$postgres_password';" >> postgres-roles.sql
  login=login_$service:$postgres_password
  echo "postgres://$login@$postgres_hosts?${target_session_attrs}sslmode=verify-full&sslrootcert=$ca_file" \
    > "database-url-$service"
done
if [ $# -gt 0 ]; then
  password > postgres-replication-password
  echo "CREATE ROLE replicator LOGIN REPLICATION PASSWORD '$(cat postgres-replication-password)';" >> postgres-roles.sql
fi
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
encryption_keys webhook > webhook-secret-keys
encryption_keys personal-data > personal-data-keys

rm -f ca.srl
echo "Created the secrets in $folder."
check_files "$@" 2>&1 || true
