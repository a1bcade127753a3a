#!/bin/bash
# A machine's life: prepare it, run the worker until it leaves, end. The unit that runs this powers the machine off when
# it ends, however it ends. Nothing here changes from queue to queue: that is in /etc/tidemill/settings.
set -ufo pipefail
. /etc/tidemill/settings

STATE=/var/lib/tidemill
RUN=/run/tidemill
FUSE=/mnt/disks/gcs
EXTRA=/mnt/disks/extra
METADATA=http://metadata.google.internal/computeMetadata/v1
STARTS=5
LASTING=60
# What hangs is a failure: a machine that waits for ever is one that takes no work and does not leave.
CALL=(curl -fsS --max-time 60 --retry 5 --retry-connrefused)
FETCH=(timeout 1800)

metadata() {
  "${CALL[@]}" -H 'Metadata-Flavor: Google' "$METADATA/$1"
}

# A call to an API of Google as this machine's service account.
call() {
  local token
  token=$(metadata instance/service-accounts/default/token | sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p')
  "${CALL[@]}" -H "Authorization: Bearer $token" "$@"
}

# ---- steps: each is done once, and again after it failed -------------------------------------------------------------

# /var is mounted noexec; what jobs and the worker's tree bring must run.
folders() {
  mkdir -p "$STATE/home" "$STATE/scratch" "$STATE/cache"
  mount --bind "$STATE" "$STATE" && mount -o remount,exec "$STATE" && chmod 1777 "$STATE/scratch" "$STATE/cache"
}

gpu_driver() {
  "${FETCH[@]}" cos-extensions install gpu &&
    mount --bind /var/lib/nvidia /var/lib/nvidia && mount -o remount,exec /var/lib/nvidia
}

extra_disk() {
  mkdir -p "$EXTRA"
  mkfs.ext4 -q -F /dev/disk/by-id/google-extra && mount /dev/disk/by-id/google-extra "$EXTRA" && chmod 1777 "$EXTRA"
}

folder() {
  mkdir -p "$1" && chmod 1777 "$1"
}

login() {
  docker-credential-gcr configure-docker --registries="$1"
}

# The worker's tree, out of its image; it appears as a whole or not at all.
tree() {
  "${FETCH[@]}" docker pull --quiet "$1" || return 1
  docker rm --force tidemill-tree >/dev/null 2>&1
  docker create --name tidemill-tree "$1" || return 1
  rm -rf "$STATE/worker.part" && mkdir "$STATE/worker.part" || return 1
  docker cp tidemill-tree:/tidemill/. "$STATE/worker.part" || return 1
  docker rm --force tidemill-tree
  rm -rf "$STATE/worker" && mv "$STATE/worker.part" "$STATE/worker"
}

image() {
  "${FETCH[@]}" docker pull --quiet "$IMAGE"
}

# A bucket as a folder: $1 image with gcsfuse, $2 name, $3 bucket, $4 mount options, $5 prefix if only that.
fuse() {
  local name=tidemill-gcs-$2 only=() wait
  [ $# -lt 5 ] || only=(--only-dir "$5")
  mkdir -p "$FUSE/$2"
  docker rm --force "$name" >/dev/null 2>&1
  docker run --detach --restart always --name "$name" --privileged --network host --volume "$FUSE:$FUSE:rshared" \
    --entrypoint gcsfuse "$1" --foreground "${only[@]}" -o "$4" "$3" "$FUSE/$2" || return 1
  for wait in 1 2 3 4 5 6 7 8 9 10; do
    mountpoint -q "$FUSE/$2" && return
    sleep "$wait"
  done
  echo "bucket $3 could not be mounted" >&2
  return 1
}

prepare() {
  local step mark
  for step in "${STEPS[@]}"; do
    mark=$RUN/done-${step//[!a-zA-Z0-9]/-}
    [ -e "$mark" ] && continue
    $step || return 1
    : >"$mark"
  done
}

# ---- the worker ------------------------------------------------------------------------------------------------------

# For the container's environment, on no command line. Docker keeps that environment below /var/lib/docker, on the
# machine's encrypted disk, for as long as the container exists.
secrets() {
  local each data value
  TIDEMILL_SECRETS=()
  for each in "${SECRETS[@]}"; do
    data=$(call "https://secretmanager.googleapis.com/v1/${each#*=}:access" |
      sed -n 's/.*"data" *: *"\([^"]*\)".*/\1/p') || return 1
    value=$(printf %s "$data" | base64 -d && printf x) || return 1
    TIDEMILL_SECRETS+=("${each%%=*}=${value%x}")
  done
}

worker() {
  docker rm --force tidemill >/dev/null 2>&1
  local TIDEMILL_RUN=(docker run --rm --name tidemill --init --network host --log-driver json-file --log-opt max-size=20m \
    --log-opt max-file=2 --env-file /etc/tidemill/env --env "TIDEMILL_MACHINE_SINCE=$SINCE" --env "TIDEMILL_MACHINE_UNTIL=$UNTIL" \
    "${OPTIONS[@]}" "$IMAGE" "${COMMAND[@]}")
  # In a shell of its own: a secret may have the name of a variable of this script, but none that begins with TIDEMILL_.
  # An array would not be exported.
  (
    unset CALL COMMAND FETCH OPTIONS SECRETS STEPS
    [ ${#TIDEMILL_SECRETS[@]} -eq 0 ] || export "${TIDEMILL_SECRETS[@]}"
    exec "${TIDEMILL_RUN[@]}"
  )
}

# Its exit code; the last lines are kept for the error record.
attempt() {
  { prepare && secrets && worker; } 2>&1 | tail -c 4000 >"$RUN/last-lines"
  return "${PIPESTATUS[0]}"
}

# ---- the end ---------------------------------------------------------------------------------------------------------

# Whether this machine is one of those that stay without work: the reconciler says which.
stays() {
  local names
  [ "$MIN_MACHINES" -gt 0 ] || return 1
  names=$(call "https://storage.googleapis.com/storage/v1/b/$BUCKET/o/fleet%2Fwarm%2F$QUEUE?alt=media") || return 1
  grep -qxF "$(metadata instance/name)" <<<"$names"
}

# Leave word in the store, where `tidemill status` and `tidemill doctor` look first.
give_up() {
  local text objects=https://storage.googleapis.com/upload/storage/v1/b/$BUCKET/o
  text=$({ echo "$1" && cat "$RUN/last-lines"; } | tr '\t' ' ' | tr -d '\000-\011\013-\037\177' |
    sed 's/\\/\\\\/g; s/"/\\"/g' | sed ':a;N;$!ba;s/\n/\\n/g')
  printf '{"at": "%s", "error": "%s"}\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$text" >"$RUN/error.json"
  echo "$1" >&2
  call -X POST -H 'Content-Type: application/json' --data-binary "@$RUN/error.json" -o /dev/null \
    "$objects?uploadType=media&name=fleet%2Ferrors%2F$(date -u +%Y%m%dT%H%M%SZ)-$(metadata instance/name).json"
  exit 1
}

mkdir -p "$RUN"
SINCE=$(date +%s)
UNTIL=$((SINCE + AGE_SECONDS))
short=0
while true; do
  began=$SECONDS
  attempt
  code=$?
  case $code in
    # A machine of age leaves even if it is one that stays. Its worker has ended at once, or will: there is no other
    # reason for a short life without an error.
    0) [ $((SECONDS - began)) -ge "$LASTING" ] && [ "$(date +%s)" -lt "$UNTIL" ] && stays || exit 0 ;;
    70) exit 0 ;;
    72) give_up "the worker cannot work with these settings (exit code 72)" ;;
  esac
  if [ "$code" -eq 0 ] || [ $((SECONDS - began)) -ge "$LASTING" ]; then
    short=0
  elif [ "$code" -gt 128 ] && grep -q '"lease":' "$RUN/last-lines"; then
    # It had work when a signal ended it: an item did that, and the ledger counts it. This machine did start its worker.
    sleep 5
  else
    short=$((short + 1))
    [ "$short" -lt "$STARTS" ] || give_up "the worker did not start in $STARTS attempts, exit code $code the last time"
    sleep $((short * 5))
  fi
done
