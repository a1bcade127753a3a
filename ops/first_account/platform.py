"""Checks of the platform: CI, monitoring, prices, ranges, keys, and what is left in the end."""

from ops.first_account.check import AWS, BOTH, GCP, Check

PLATFORM = (
    Check(
        BOTH,
        "Only the branch deploys",
        "run a workflow of another branch that names the environment, and the deploy of main",
        "the cloud refuses the other branch's login; main deploys. The subject in the login that is refused has the "
        "numbers of `ci.repository`: of owner and repository, on GitLab of the project.",
        "The trust of CI's writer compares `ref` (components/aws/ci/ci.py), the pool's condition on GCP "
        "(components/gcp/ci.py). If main is refused as well, leave that out and limit the environment on GitHub. "
        "Another form of the subject: correct components/ci.py.",
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
        AWS,
        "S3 copies a state to the replica",
        "tidemill-bootstrap:replica; pulumi up there and in a stack; "
        "PULUMI_BACKEND_URL=$replica_url python -m ops restore --stack NAME",
        "the list has the state of that `up` within 15 minutes, and no lock.",
        "`_copy_statements` and `_s3_of` in components/aws/bootstrap.py; S3 names the object's `ReplicationStatus`.",
    ),
    Check(
        BOTH,
        "Machines boot and work behind a proxy",
        "in a network whose only way out is the proxy: proxy: {url: http://PROXY:3128}; pulumi up; submit an item with "
        "`curl -sI https://example.org`; look at the proxy's log",
        "the machine joins and the item succeeds; the proxy's log has the registry and example.org, and on GCP none of "
        "Google's APIs.",
        "AWS: /var/log/cloud-init-output.log; compare the drop-ins of components/services/batch/user_data.py. GCP: "
        "`tidemill doctor`; compare components/outbound.py and components/services/pubsub/cloud_init.py.",
    ),
    Check(
        BOTH,
        "Registry, file system and disks take the stack's keys",
        "registry, disks: {kms_key: create}, file_systems: {shared: {kms_key: create}}; pulumi up as CI; push; write a "
        "file; submit; then disks with a key of your own that admits what docs/networks.md names",
        "no call is denied, machines start with both keys, and the cloud's descriptions of all three name the keys.",
        "A call is denied: AWS: `_by_storage` in components/aws/ci/tag_policies.py; GCP: AGENTS in "
        "components/gcp/bootstrap.py. A machine ends at once with Client.InvalidKMSKey (AWS), or the group's errors "
        "have a 403 of Cloud KMS (GCP): correct whom the key admits, in components/aws/key.py or "
        "components/gcp/key.py.",
    ),
    Check(
        BOTH,
        "Connections are logged",
        "network: {create: {flow_logs_days: 30}}; pulumi up as CI; submit; after 15 minutes, aws logs tail GROUP, or "
        "gcloud logging read --bucket BUCKET --view _AllLogs --location REGION",
        "lines with the machines' addresses; `up` is denied nothing, and a second `up` changes nothing.",
        "AWS: `aws ec2 describe-flow-logs` has DeliverLogsErrorMessage; correct the role in "
        "components/aws/flow_logs.py. GCP: the sink's filter in components/gcp/flow_logs.py.",
    ),
    Check(
        BOTH,
        "One person keeps secrets, and no one else reads them",
        "access: {submitters: [PERSON], personal_secrets: true}, on AWS for a user and for a session of IAM Identity "
        "Center; pulumi up as CI; tidemill secret set A; tidemill submit --secret A --shell -- 'printenv A | "
        "wc -c'; then read the secret as another role of the account",
        "the item prints the length; the other role is denied, on GCP unless the project lets it; a second `up` "
        "changes nothing, and `tidemill secret list` of a new stack is empty.",
        "AWS: a refused trust policy names the principal: correct AWS_PERSON in components/config/types.py. The "
        "secret's own policy is in components/aws/identity.py.",
    ),
    Check(
        BOTH,
        "`tidemill up` works in an account that nothing was made in, and `down` leaves nothing",
        "in a new account or project, as its administrator: tidemill up --email YOU; tidemill up; tidemill submit "
        "--name first --items FOLDER --shell -- true; tidemill down; again as a user without "
        "iam:CreateServiceLinkedRole; again with a session that ends while `up` works, then log in and type it again",
        "the second `up` changes nothing; with a small quota `tidemill explain first` names it; buckets, keys, queues "
        "and machines are gone, but for what docs/personal.md names. The denied user reads that permission before "
        "anything is made; the last `up` goes on, or names the lock and what Pulumi had begun.",
        "A right that is missing, or a role that Batch asks for besides: see `prepare` in tidemill/clouds/aws/homes.py "
        "and `SERVICES` in components/aws/bootstrap.py. GCP: an API that is not ready yet is in "
        "components/gcp/bootstrap.py. A session's end that is told without a command: correct "
        "tidemill/clouds/aws/login.py or gcp/login.py.",
    ),
    Check(
        BOTH,
        "Times and files send templates, and the sender takes as long as its price counts",
        "schedules: {often: {template: t, cron: '*/5 * * * *'}}, arrivals: {new: {template: u, prefix: URI}}; pulumi "
        "up; put 'a b+ü.txt', a copy of it and a file of 100 MB below URI; after an hour: tidemill template history "
        "t, then u; the REPORT lines of the function's log group, on GCP the latencies in the service's request log; "
        "the history again after a change of clocks",
        "each time has one job, and each file is in exactly one, by its own name; files are there a minute after "
        "`settle_minutes`. A send takes about 30 seconds, and a look where nothing has arrived about half a second; "
        "the first call, which pulls the image, ten seconds more at most. The hour that clocks skip or repeat has no "
        "job twice.",
        "Seconds: SEND_SECONDS and TICK_SECONDS in components/sending.py. A file is missing or has another name: look "
        "at a message of the queue, then tidemill/clouds/aws/events.py or gcp/events.py. No message: the bucket does "
        "not send its events, or the pattern in components/aws/sending/arrivals.py is wrong.",
    ),
    Check(
        BOTH,
        "`pulumi destroy` leaves nothing",
        "pulumi config set --path 'tidemill:allow[0]' purge; pulumi up; pulumi destroy",
        "no error; buckets, repositories and machines are gone.",
        "The error names what is in use: see docs/upgrading.md.",
    ),
)
