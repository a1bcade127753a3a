"""The checks, in order of risk. ``python -m ops.first_account.page`` writes docs/first-account.md from them."""

from collections.abc import Callable
from dataclasses import dataclass

from components.rooms import CLOUDS
from ops.first_account import account as probes
from ops.first_account.account import Account
from ops.first_account.aws import cancelled_once, cluster_names, one_stream


@dataclass(frozen=True)
class Check:
    """One thing that localcloud cannot tell.

    Attributes:
        clouds: Where it is asked.
        name: What is asked.
        command: What to type, with $STACK, $QUEUE and names from `pulumi stack output`.
        expect: The answer that the design counts on.
        otherwise: What to change when the answer differs.
        probe: Asks it and returns what was seen; None for what a hand has to do.
    """

    clouds: tuple[str, ...]
    name: str
    command: str
    expect: str
    otherwise: str
    probe: Callable[[Account], str] | None = None


BOTH: tuple[str, ...] = CLOUDS
AWS, GCP = ((cloud,) for cloud in CLOUDS)

CHECKS = (
    Check(
        GCP,
        "Compute takes the instance groups",
        "gcloud compute instance-groups managed list --filter=name~$STACK",
        "every group of the stack is listed; `pulumi up` ended without `maxSurge` or `maxUnavailable` in an error.",
        "Change `update_policy` in components/services/pubsub/instance_group.py: Compute names the least value in its "
        "error.",
    ),
    Check(
        BOTH,
        "A second `up` changes nothing",
        "python -m ops drift --stack $STACK",
        "no resource differs.",
        "Write the property as the cloud answers it, and let localcloud answer the same.",
        probes.no_drift,
    ),
    Check(
        BOTH,
        "A machine comes, brings the worker and runs an item",
        "tidemill submit --queue $QUEUE --items items.txt -- true && tidemill wait NAME; tidemill status NAME --links",
        "both items succeed within 30 minutes, at their first attempt; a browser opens all four addresses. With "
        "tidemill:tags, `aws ec2 describe-tags --filters Name=key,Values=KEY` lists machine, volume and network "
        "interface; on GCP `gcloud compute disks list --filter=labels.KEY:*` lists the disks.",
        "AWS: through Session Manager, `systemctl status tidemill-host` (whose user is tidemill-host), `ls -l "
        "/var/lib/tidemill/worker` and `journalctl -u tidemill-host` say how far components/services/batch/host.py "
        "came, and why it refused an image. "
        "GCP: `gcloud compute instances get-serial-port-output` shows run.sh. "
        "Addresses: tidemill/clouds/links.py.",
        probes.items_run,
    ),
    Check(
        AWS,
        "A container does not reach instance metadata",
        "run `curl -m 3 http://169.254.169.254/latest/meta-data/` as an item",
        "no answer of 200, while the job still reads and writes its store.",
        "`systemd-cgls` on a machine shows the slice of ECS's tasks: put it into `_NO_METADATA` in "
        "components/services/batch/user_data.py.",
        probes.no_metadata,
    ),
    Check(
        AWS,
        "Retry rules see the worker's exit code",
        "tidemill cancel NAME while both chunks run, then aws batch describe-jobs",
        "each child has one attempt: exit code 72 matches the rule that ends it.",
        "Read `attempts[].container.exitCode` and correct `_retries` in components/services/batch/job_definition.py.",
        cancelled_once,
    ),
    Check(
        AWS,
        "An attempt makes one log stream",
        "aws logs describe-log-streams --log-group-name GROUP --order-by LastEventTime",
        "two streams for the two attempts of the check above that runs items.",
        "CreateLogStream has a quota of 50 per second: see `_log` in components/services/batch/job_definition.py.",
        one_stream,
    ),
    Check(
        AWS,
        "Machines join clusters whose names the instance role's policy expects",
        "aws batch describe-compute-environments --query 'computeEnvironments[].ecsClusterArn'",
        "each compute environment's cluster is AWSBatch-<name>-<id> or <name>_Batch_<id>; otherwise no machine joins.",
        "Correct the pattern in components/aws/identity.py.",
        cluster_names,
    ),
    Check(
        BOTH,
        "A job that was just submitted is not taken for lost",
        "tidemill submit …; tidemill resume NAME at once",
        "`resume` enqueues nothing.",
        "Raise the patience of `reconcile` in tidemill/client/rounds/deliveries.py above the lag that you see.",
        probes.not_lost,
    ),
    Check(
        BOTH,
        "A job begins when the one before it is complete, and no client looks",
        "tidemill submit --name one --items items.txt -- sleep 120; tidemill submit --after one a b -- true",
        "after both have ended, `begun` of the second is younger than the first's records; AWS: its array was PENDING "
        "until then; GCP: no machine started for it.",
        "AWS: `aws batch describe-jobs` shows `dependsOn` and why; try a SUCCEEDED and a FAILED array's id with "
        "`--depends-on`, and correct `_blockers` in tidemill/client/rounds/enqueue.py. GCP: the reconciler's log names "
        "the permission that is missing, see `grant_fleet` in components/gcp/store.py.",
    ),
    Check(
        GCP,
        "The reconciler runs and may read what it decides by",
        "gcloud storage cat gs://BUCKET/fleet/reconciler.json",
        "a report younger than three of its periods, without errors.",
        "`gcloud functions logs read` names the permission that is missing: components/services/pubsub/reconciler.py "
        "grants them.",
        probes.reconciler_reports,
    ),
    Check(
        AWS,
        "A burst of containers keeps its logs, and a query finds them",
        "submit 1,000 items with --chunk-size 1 and -- sh -c 'echo über/done'; ten minutes after its end: tidemill "
        "logs NAME --grep über/done",
        "every container starts, 1,000 lines come, and stderr says `searched …`; CloudTrail may show throttled "
        "CreateLogStream calls.",
        "Lines are missing: make chunks longer, or ask for a higher quota of log streams per second. The query is "
        "denied: see `QUERIES` in components/aws/logs.py. It finds nothing: see `pattern_of` in "
        "tidemill/clouds/patterns.py.",
    ),
    Check(
        AWS,
        "The log archive's roles may be assumed with aws:SourceAccount",
        "set tidemill:logs: {archive: bucket}, run a job, then aws s3 ls on the archive's bucket after 15 minutes",
        "objects of the log group are there, and `zcat` of one prints one JSON document per line.",
        "Name the source by `aws:SourceArn` in the trusts of components/aws/logs.py; its processors are there, too.",
    ),
    Check(
        AWS,
        "A Spot notice reaches the worker",
        "aws ec2 send-spot-instance-interruptions (or an experiment of Fault Injection Service) on a busy machine",
        "`tidemill status` counts a reclaim, and the chunk runs again elsewhere. If its item has state, its lines say "
        "`state saved` before the end and `state restored` on the next machine. FIS recommends a rebalance first: "
        "`state saved` follows it too, and Batch leaves the machine alone until the notice.",
        "Read /var/lib/tidemill/worker/notice on the machine: `host.py serve` writes it, and `rebalance` next to it.",
    ),
    Check(
        GCP,
        "A preempted machine's work runs elsewhere, and the group forgets the machine",
        "gcloud compute instances simulate-maintenance-event INSTANCE --zone ZONE",
        "`tidemill status` counts a reclaim; the machine is gone from the group within ten minutes. State is saved and "
        "restored as on AWS, within 30 seconds. `tidemill report` says that the machines were Spot machines.",
        "Look at the shutdown of components/services/pubsub/host/run.sh, and at the reconciler's report.",
    ),
    Check(
        AWS,
        "A release of the worker reaches machines that run",
        'make worker PUSH="$registry/tidemill-worker", pulumi up, and submit while a machine is up',
        "the new job runs on the same machine with the new worker; no instance is replaced.",
        "Look at the answer of fetch.sock in the item's log: `host.py` says why a tree did not come.",
    ),
    Check(
        GCP,
        "A machine leaves at its age, and a warm one comes back",
        "set max_age_hours to 1 in a stack of its own and keep it busy",
        "the unit ends after an hour with its items given back, and the machine powers off.",
        "systemd on Container-Optimized OS did not heed RuntimeMaxSec: see components/services/pubsub/host.",
    ),
    Check(
        BOTH,
        "Only the branch deploys",
        "run a workflow of another branch that names the environment, and the deploy of main",
        "the cloud refuses the other branch's login; main deploys.",
        "The trust of CI's writer compares `ref` (components/aws/ci/ci.py), the pool's condition on GCP "
        "(components/gcp/ci.py). If main is refused as well, leave that out and limit the environment on GitHub.",
    ),
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
        "[t2a], [n2, t2a], [c4], [a2] and [a3-ultra]; pulumi up; submit two items to each, of all GPUs of a machine "
        "with `nvidia-smi` and deviceQuery, on inf2 with `ls /dev/neuron*`",
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
    Check(
        GCP,
        "A chunk that a closed pull has taken comes back",
        "stop a worker while it waits for a message, then submit",
        "the chunk starts within two minutes.",
        "Lower `ack_deadline_seconds` in components/services/pubsub/queue_topic.py.",
    ),
    Check(
        AWS,
        "CI's writer deploys its environment and reaches no other",
        "run the deploy workflow once; then, in a job of it, aws s3 ls on another environment's store",
        "the deployment ends well, launch templates included; the listing is denied.",
        "CloudTrail names the denied call. The boundaries in components/aws/ci/boundary.py count on "
        "`aws:FederatedProvider` in the session and on `aws:ResourceTag` of secrets, components/aws/ci/tag_policies.py "
        "on that of launch templates and on `ec2:CreateAction`. If it is logs:PutIndexPolicy: give it and "
        "DeleteIndexPolicy `*` in components/aws/ci/policies.py.",
    ),
    Check(
        AWS,
        "Batch says on a waiting child why it waits",
        "submit two items to a queue of one rare Spot type; after 15 minutes, tidemill explain NAME, "
        "aws batch list-jobs --array-job-id ID --job-status RUNNABLE and aws batch get-job-queue-snapshot",
        "`explain` prints A6 with Batch's words; the reason is on the first child or on the parent, and the snapshot's "
        "front lists children.",
        "Read it where it is: `BatchReader` in tidemill/services/batch/facts.py. Correct the row in "
        "docs/cloud-facts.md.",
    ),
    Check(
        GCP,
        "The reconciler's report has Google's words",
        "gcloud storage cat gs://BUCKET/fleet/reconciler.json while a queue's quota is too small",
        "`notes` and `failures` of the group are not empty, and `tidemill explain NAME` prints G7.",
        "Correct the codes in tidemill/services/pubsub/rules.py.",
    ),
    Check(
        BOTH,
        "People are told of trouble, and of a healthy job nothing",
        "set tidemill:monitoring: {notify: [you], job_channels: {oncall: TOPIC}}, confirm the mail, submit 100 items "
        "that succeed with --notify oncall, 100 that fail and one larger than any machine (GCP: pause the scheduler)",
        "TOPIC's subscribers get one message before you type another command; within half an hour a mail about the "
        "failed items, and one with Batch's reason and the command `tidemill explain` with the job's name (on GCP: "
        "about the reconciler); later one that too many items no longer fail. AWS, with no_machine_minutes: 15: one "
        "about work that no machine runs; with full_hours: 1 and a job that takes three, none about the cap.",
        "AWS: look at FailedInvocations of the rules, which must be 0 (else give the targets a role that may publish), "
        "at `detail.parameters` of the event and at the metrics of components/aws/monitoring/alarms.py. GCP: compare "
        "the metrics' names with components/gcp/monitoring/line_metrics.py. No message: the worker's log has the "
        "answer of SNS or Pub/Sub; a topic with a key of its own must let the job's role use it.",
    ),
    Check(
        AWS,
        "The clouds tell their prices",
        "python -m ops prices refresh --cloud aws --region REGION; python -m ops prices show --cloud aws; "
        "python -m ops estimate --stack $STACK; a day later, in the account that pays: python -m ops costs --cloud aws "
        "--months 1; with access: {advise: true}, as a submitter: tidemill advise --cpus "
        "400",
        "five parts with the day's date, the interruptions with that of their feed; a type is `unknown` only where the "
        "region does not have it. A second run asks for no part again but the interruptions. `advise` has a score and "
        "a range of 90 days, and no note of a denied or throttled call. `costs` has a row of the stack's team.",
        "Compare the price list's header and rows with `_COMPUTE` in ops/prices/aws.py, and the public files with "
        "ops/prices/spot_page.py and ops/prices/advisor.py. Without a login the same command has four parts. "
        "`advise`: the note names the action; see tidemill/clouds/aws/advice.py and `advise_statements`.",
    ),
    Check(
        GCP,
        "The catalogue names its prices as before",
        "python -m ops prices refresh --cloud gcp; python -m ops prices show --cloud gcp; a day later: python -m ops "
        "costs --cloud gcp --table TABLE --months 1; with access: {advise: true}, "
        "as a submitter: tidemill advise --cpus 400",
        "every region with three parts; no machine of the stack's families is `unknown` in the stack's region. "
        "`advise` has a score, and no note of a denied call, which a missing permission or version would cause. "
        "`costs` has a row of the stack's team.",
        "Compare the SKUs' descriptions with the patterns in ops/prices/gcp.py. `advise`: correct `ADVISE` in "
        "components/gcp/identity.py, or the path in tidemill/clouds/gcp/advice.py.",
    ),
    Check(
        AWS,
        "Pools of IPAM, and names of services in China and GovCloud",
        "pulumi up with network: {create: {egress: endpoints, ipam_pool: POOL}} and logs: {archive: bucket}",
        "the VPC has a range of the pool; neither a policy nor an endpoint's name is refused; machines join.",
        "Correct `_vpc` in components/aws/network.py, `principal` or `endpoint` in components/aws/account.py.",
    ),
    Check(
        BOTH,
        "Registry and file system take the stack's keys",
        "registry: {kms_key: create}, file_systems: {shared: {kms_key: create}}; pulumi up as CI; push; write a file",
        "no call is denied, and the cloud's descriptions of both name the keys.",
        "AWS: `_by_storage` in components/aws/ci/tag_policies.py; GCP: AGENTS in components/gcp/bootstrap.py.",
    ),
    Check(
        BOTH,
        "`pulumi destroy` leaves nothing",
        "pulumi config set --path 'tidemill:allow[0]' purge; pulumi up; pulumi destroy",
        "no error; buckets, repositories and machines are gone.",
        "The error names what is in use: see docs/upgrading.md.",
    ),
)
