"""Checks of jobs: how they start, run, end, log and say why they wait."""

from ops.first_account import account as probes
from ops.first_account.aws import cancelled_once, cluster_names, one_stream
from ops.first_account.check import AWS, BOTH, GCP, Check

JOBS = (
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
        GCP,
        "A chunk that a closed pull has taken comes back",
        "stop a worker while it waits for a message, then submit",
        "the chunk starts within two minutes.",
        "Lower `ack_deadline_seconds` in components/services/pubsub/queue_topic.py.",
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
)
