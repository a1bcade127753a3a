#!/bin/bash
# A step of run.sh, before anything is pulled: the company's authorities beside the public ones, and a restart by which
# Docker reads them and the proxy in its unit's settings. The system's own file is read-only, so another one covers it.
# Source: https://cloud.google.com/container-optimized-os/docs/concepts/disks-and-filesystem
STATE=/var/lib/tidemill
OWN=/etc/tidemill/certificates.pem
PUBLIC=/etc/ssl/certs/ca-certificates.crt
if [ -e "$OWN" ]; then
  # Renamed into its place: where an earlier attempt got so far, the public file is this one, and must not become empty.
  mkdir -p "$STATE/trust" && cat "$PUBLIC" "$OWN" >"$STATE/trust/part" &&
    mv "$STATE/trust/part" "$STATE/trust/certificates.pem" &&
    mount --bind "$STATE/trust/certificates.pem" "$(readlink -f "$PUBLIC")" || exit 1
fi
systemctl daemon-reload && systemctl restart docker.service
