#!/bin/bash
# A step of run.sh, before all others: the machine's local SSDs, as one file system at /var/lib/tidemill. Their content
# ends with the machine.
# Source: https://cloud.google.com/compute/docs/disks/add-local-ssd (format and mount)
shopt -s nullglob
disks=(/dev/disk/by-id/google-local-nvme-ssd-*)
[ ${#disks[@]} -gt 0 ] || { echo "this machine has no local SSDs" >&2; exit 1; }
device=${disks[0]}
if [ ${#disks[@]} -gt 1 ]; then
  device=/dev/md0
  # As one disk: an item may need more than one of them holds. It may exist already, if a later command failed.
  [ -e "$device" ] || mdadm --create --run --level 0 --raid-devices ${#disks[@]} "$device" "${disks[@]}" || exit 1
fi
mkfs.ext4 -q -F -E nodiscard "$device" && mkdir -p /var/lib/tidemill && mount -o noatime "$device" /var/lib/tidemill
