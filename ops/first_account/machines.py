"""Checks of machines: types, rungs, images, disks and file systems."""

from ops.first_account.check import AWS, BOTH, Check

MACHINES = (
    Check(
        AWS,
        "Other machine types replace machines without a queue being lost",
        "change families of a queue under a running job; pulumi up",
        "`up` ends, or says after 20 minutes that the update goes on; a second `up` then changes nothing.",
        "See docs/upgrading.md; correct its times.",
    ),
    Check(
        AWS,
        "The next rung opens while Spot is dry",
        "a queue of one rare Spot type with On-Demand behind it",
        "On-Demand machines start although Spot is below its max_cpus.",
        "Correct docs/clouds.md and ADR 65: it overflows only at max_cpus, and people drain the Spot rung.",
    ),
    Check(
        BOTH,
        "A rung with a reservation fills it, and starts nothing elsewhere",
        "reserve one machine, name it in a rung's reservation, and submit work for two; on AWS also a Capacity Block, "
        "with block: true",
        "one machine runs in the reservation; the second is refused for capacity. On AWS so too with a resource group, "
        "and EC2 takes its launch template. A block's machines end 30 minutes before it, and none starts after that.",
        "Correct the rows of docs/cloud-facts.md and components/services/batch/purchase.py; on "
        "AWS, EC2's account of the launch template's target is in `aws autoscaling describe-scaling-activities`.",
    ),
    Check(
        BOTH,
        "A machine from an image of one's own runs items, and goes back to the cloud's",
        "copy the cloud's image, set machines.image to the copy, submit; then leave the key out, pulumi up, submit; "
        "then name an arm64 image in an x86_64 queue, pulumi preview",
        "both jobs succeed; the machines of the second have the cloud's newest image; the preview refuses the third.",
        "Compare `aws ec2 get-console-output` with components/services/batch/user_data.py. If the second job still "
        "has the copy, Batch keeps the launch template's image: name a new rung, as in docs/upgrading.md.",
    ),
    Check(
        BOTH,
        "Machines with Arm, GPUs, Neuron and Hyperdisk start the worker",
        "set worker_image_arm64; add queues of families [c7g], [inf2] and your GPUs' (g6f with 2 vCPUs too), on GCP "
        "[t2a], [n2, t2a], [c4], [h3], [z3], [g4], [a2] and [a3-ultra]; pulumi up; submit two items to each, of all "
        "GPUs of a machine with `nvidia-smi` and deviceQuery, on inf2 with `ls /dev/neuron*`",
        "all items succeed within 30 minutes, and no GPU answers `system not yet initialized`. AWS: Batch took "
        "ECS_AL2023 for arm64 and for the Neuron image, and a driver of 595 or later means that g7 needs no image of "
        "its own any more. GCP: the templates are taken with secure boot and without a "
        "network card's type.",
        "AWS: name the AMI by `image_id_override` in components/services/batch/compute_environment.py, start "
        "nvidia-fabricmanager in its user_data.py. GCP: correct the family's row in tidemill/machines/data/"
        "families.json, `IMAGES` in components/services/pubsub/instance_group.py, `gpu_driver` in its host/run.sh.",
    ),
    Check(
        BOTH,
        "Local disks hold the scratch",
        "add queues with scratch: local: families [m6id] with cpus {min: 4, max: 64}, on GCP [c3d] with cpus 16, "
        "then 60; pulumi up; tidemill submit --queue QUEUE --items items.txt --shell -- 'df -h /scratch /cache'",
        "both items succeed, and the log shows one file system of the disks' size, also where there are several disks.",
        "AWS: /var/log/cloud-init-output.log says how far components/services/batch/local_disks.sh came. GCP: "
        "`tidemill doctor` shows the record of components/services/pubsub/host/local_disks.sh.",
    ),
    Check(
        BOTH,
        "Jobs of two queues share a file system, and no one else mounts it",
        "set tidemill:file_systems: {shared: {backup: true}}, on GCP {shared: {tier: basic_hdd, zone: a}}; mount it "
        "in two queues, in one with read_only; pulumi up; submit `date > /mnt/shared/a` to the first, then "
        "`cat /mnt/shared/a; touch /mnt/shared/b` to the second; then mount it from a machine of your own: on AWS with "
        "the machines' security group, without a role and without TLS, on GCP from another subnetwork",
        "the file is read and `touch` is refused; each mount by hand is denied; a second `up` changes nothing; on GCP "
        "size_gib: 1100 grows it in place, and without it the preview refuses.",
        "AWS: CannotCreateVolumeError in `aws batch describe-jobs` has the mount helper's words: compare the policy of "
        "components/aws/file_system.py. If the helper asks EFS's API, add an endpoint where there is no internet. GCP: "
        "`tidemill doctor` shows Docker's error; compare the export of components/gcp/file_system.py.",
    ),
)
