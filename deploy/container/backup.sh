#!/bin/bash
# Backs up the event log and Postgres, or restores a backup. Runs in the image of Postgres, so pg_dump is as new as the
# server. See docs/operations/backup.md.
#
#     backup schedule          makes a backup when the last one is a day old
#     backup now               makes a backup
#     backup restore <name>    restores a backup into an empty installation
set -euo pipefail
umask 077

BACKUPS=/backups
LOG=/log
KEEP_DAYS=${BACKUP_KEEP_DAYS:-14}
# Marks a complete backup.
SUMS=SHA256SUMS
# Capacity of a chunk of EventStoreDB.
CHUNK_BYTES=268435456

fail() {
  echo "backup: $*" >&2
  exit 1
}

# Command lines are visible to all users of the host, so the password goes to the environment.
[[ $(cat "$DATABASE_URL_FILE") =~ ^([^:]+://[^:@/]+):([^@]*)@(.*)$ ]] || fail "DATABASE_URL contains no password"
DATABASE="${BASH_REMATCH[1]}@${BASH_REMATCH[3]}"
PGPASSWORD=$(printf %b "${BASH_REMATCH[2]//%/\\x}")
export PGPASSWORD

# Copies files of the log in alphabetical order: copy_files <target folder> <conditions of find>...
copy_files() {
  (
    cd $LOG
    find . -type f "${@:2}" -printf '%P\n' | sort | xargs --delimiter='\n' --no-run-if-empty \
      cp --parents --preserve=mode,timestamps --sparse=always --target-directory="$1"
  )
}

# Copies the checkpoints, then the index, then the chunks, so that what a checkpoint covers is copied later. The third
# step also copies the files of the embedded log. The server can delete a listed file of the index, so a failed copy is
# repeated.
copy_log() {
  local attempt
  for attempt in 1 2 3; do
    rm -rf "$1"
    mkdir "$1"
    if copy_files "$1" -name '*.chk' ! -path './*/*' && copy_files "$1" -path './index/*' &&
      copy_files "$1" ! -path './index/*' ! -name '*.chk'; then return; fi
    echo "backup: attempt $attempt to copy the event log failed" >&2
  done
  fail "the event log cannot be copied"
}

# Checks that the copy contains the chunk with the last position that its checkpoint covers.
verify_log() {
  [ -n "$(find "$1" -type f -size +0)" ] || fail "the event log is empty"
  [ -e "$1/writer.chk" ] || return 0
  local position
  position=$(od --address-radix=n --format=d8 --read-bytes=8 "$1/writer.chk")
  compgen -G "$1/$(printf 'chunk-%06d.*' $((position / CHUNK_BYTES)))" > /dev/null ||
    fail "the copy of the event log ends before its checkpoint $position"
}

make_backup() {
  local name draft=$BACKUPS/.draft started=$SECONDS
  exec 9> $BACKUPS/.lock
  flock --nonblock 9 || fail "another backup is running"
  name=$(date --utc +%FT%H%M%SZ)
  rm -rf $draft
  mkdir $draft
  pg_dump --dbname="$DATABASE" --format=custom --file=$draft/postgres.dump
  copy_log $draft/log
  stat --format=%u:%g $LOG > $draft/log-owner
  pg_dump --dbname="$DATABASE" --schema=data_keys --data-only --rows-per-insert=1000 --on-conflict-do-nothing \
    --file=$draft/data-keys.sql
  verify_log $draft/log
  pg_restore --file=/dev/null $draft/postgres.dump
  grep --quiet 'PostgreSQL database dump complete' $draft/data-keys.sql || fail "the dump of the data keys is incomplete"
  (cd $draft && find . -type f ! -name $SUMS -print0 | sort --zero-terminated | xargs --null sha256sum > $SUMS)
  sync
  # The services export this time as a metric.
  psql --dbname="$DATABASE" --quiet --command \
    "UPDATE projection.task_success SET succeeded_at = now() WHERE task = 'backup'"
  mv $draft "$BACKUPS/$name"
  find $BACKUPS -mindepth 1 -maxdepth 1 -type d -name '2*Z' -mtime "+$KEEP_DAYS" -exec rm -rf {} +
  echo "backup: $name is complete: $(du --human-readable --summarize "$BACKUPS/$name" | cut --fields=1) in $((SECONDS - started)) s"
}

restore_backup() {
  local backup=$BACKUPS/$1 attempt started=$SECONDS
  [ -e "$backup/$SUMS" ] || fail "$1 is not one of the complete backups: $(cd $BACKUPS && echo 2*Z)"
  [ -z "$(find $LOG -mindepth 1 -type f -print -quit)" ] || fail "the event log is not empty"
  (cd "$backup" && sha256sum --check --quiet --strict $SUMS)
  for attempt in $(seq 300); do
    pg_isready --dbname="$DATABASE" --quiet && break
    sleep 1
  done
  [ "$(psql --dbname="$DATABASE" --no-align --tuples-only --command "SELECT to_regnamespace('projection') IS NULL")" = t ] ||
    fail "Postgres is not empty"
  pg_restore --dbname="$DATABASE" --exit-on-error --single-transaction "$backup/postgres.dump"
  psql --dbname="$DATABASE" --quiet --output=/dev/null --single-transaction --set=ON_ERROR_STOP=1 \
    --command='TRUNCATE data_keys.data_key' --file="$backup/data-keys.sql"
  cp --recursive --preserve=mode,timestamps --sparse=always "$backup/log/." $LOG
  # EventStoreDB then removes what was incomplete when it was copied.
  [ ! -e $LOG/chaser.chk ] || cp $LOG/chaser.chk $LOG/truncate.chk
  chown --recursive "$(cat "$backup/log-owner")" $LOG
  sync
  echo "backup: $1 is restored in $((SECONDS - started)) s"
}

case ${1-} in
  now) make_backup ;;
  restore) restore_backup "${2:?Name a backup}" ;;
  schedule)
    trap exit TERM
    while :; do
      # After a failure, the next attempt follows after ten minutes.
      [ -n "$(find $BACKUPS -mindepth 2 -maxdepth 2 -name $SUMS -mmin -1430)" ] || bash "$0" now & wait $! || true
      sleep 600 & wait $!
    done
    ;;
  *) fail "unknown command: ${1-}" ;;
esac
