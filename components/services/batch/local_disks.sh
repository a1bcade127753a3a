# The machine's own NVMe disks, as one file system below /var/lib/tidemill. Sourced by user data before anything is put
# there. Their content ends with the machine; the hardware encrypts it.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/add-instance-store-volumes.html
local_disks() {
  local disks device
  mapfile -t disks < <(lsblk --nodeps --noheadings --paths --output NAME,MODEL | awk '/Instance Storage/ { print $1 }')
  [ ${#disks[@]} -gt 0 ] || { echo "tidemill: this machine has no local disks" >&2; return 1; }
  device=${disks[0]}
  if [ ${#disks[@]} -gt 1 ]; then
    device=/dev/md/tidemill
    # As one disk: an item may need more than one of them holds.
    command -v mdadm >/dev/null || dnf install -y mdadm || return 1
    mdadm --create --run --level 0 --raid-devices ${#disks[@]} "$device" "${disks[@]}" || return 1
  fi
  mkfs.xfs -q -f -K -L tidemill "$device" && mkdir -p /var/lib/tidemill &&
    echo "LABEL=tidemill /var/lib/tidemill xfs defaults,noatime,nofail 0 2" >>/etc/fstab && mount /var/lib/tidemill
}
local_disks
