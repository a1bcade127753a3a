"""The probes of Google Cloud: teams vision and audio and CI, in one project.

To add one, add a line to `PROBES`. `python -m tests.access` then rewrites docs/access.md.
"""

from __future__ import annotations

from localcloud.gcp.condition import compiled
from tests.access import google_sender
from tests.access.probes import Probe, Thing, no, of, yes
from tests.access.stacks import (
    GOOGLE_KEY,
    NUMBER,
    PATH,
    PEOPLE,
    PROJECT,
    STATE_BUCKET,
    SUFFIX,
    gitlab_pool,
    google,
)

IDENTITIES = {
    "submitter": "a submitter of vision-dev",
    "without": "a submitter of audio-dev, without `access.advise`",
    "machine": "a machine of vision-dev, and what runs on it",
    "reconciler": "the reconciler of vision-dev",
    **google_sender.IDENTITIES,
    "preview": "CI's reader",
    "deploy-dev": "CI's writer of dev",
    "gitlab": f"a pipeline of GitLab, with `ci.repository: {PATH}@{NUMBER}`",
    "ada": "the one submitter of ada-dev, a stack with `personal_secrets`",
    "machine of ada": "a machine of ada-dev, and what runs on it",
}
_ACCOUNT = f"serviceAccount:{{}}@{PROJECT}.iam.gserviceaccount.com"
_PRINCIPALS = {
    "submitter": PEOPLE.format(team="vision"),
    "without": PEOPLE.format(team="audio"),
    "machine": _ACCOUNT.format("vision-dev-worker"),
    "reconciler": _ACCOUNT.format("vision-dev-reconciler"),
    **{who: _ACCOUNT.format(account) for who, account in google_sender.ACCOUNTS.items()},
    "preview": _ACCOUNT.format("tidemill-ci-preview"),
    "ada": "user:ada@example.com",
    "machine of ada": _ACCOUNT.format("ada-dev-worker"),
    "deploy-dev": _ACCOUNT.format("tidemill-ci-dev-deploy"),
}


def allows(probe: Probe) -> bool:
    """localcloud's decision, from the bindings and roles that the components make."""
    return (
        _enters(probe)
        if probe.who == "gitlab"
        else google().allows(_PRINCIPALS[probe.who], probe.action, probe.on.name, probe.on.context)
    )


def _enters(probe: Probe) -> bool:
    """Whether a provider of the pool admits a token's claims, and the account admits the subject that it makes."""
    claims = dict(probe.on.context)
    provider = "gitlab-deploy" if "deploy" in probe.on.name else "gitlab"
    condition = gitlab_pool().one("iam.WorkloadIdentityPoolProvider", f"tidemill-ci-{provider}")
    told = {f"assertion.{claim}": value for claim, value in claims.items()}
    if not compiled(condition.inputs["attributeCondition"])(told):
        return False
    subject = f"project:{claims['project_path']}"
    subject += f":environment:{claims['environment']}" if provider == "gitlab-deploy" else ""
    admitted = [each.inputs for each in gitlab_pool().of("serviceaccount.IAMMember")]
    return any(
        each["member"].endswith(f"/subject/{subject}") and each["serviceAccountId"].startswith(probe.on.name)
        for each in admitted
    )


def _login(account: str, text: str, **claims: str) -> Thing:
    called = "CI's reader" if account == "preview" else f"CI's writer of {account.removeprefix('deploy-')}"
    whole = {"project_path": PATH, "project_id": NUMBER, "ref": "main", "ref_type": "branch", "ref_protected": "true"}
    writer = {"environment_protected": "true", "environment": "prod", "pipeline_source": "push"}
    whole |= {} if account == "preview" else writer
    return Thing(f"{called}, {text}", f"tidemill-ci-{account}", whole | claims)


_BE = "iam.serviceAccounts.getAccessToken"


def _store(team: str, key: str) -> Thing:
    name = f"storage/projects/_/buckets/{team}-dev-store-bucket-{SUFFIX}/objects/{key}"
    return Thing(f"`{key}` in the store of {team}-dev", name)


def _bucket(bucket: str, key: str) -> Thing:
    return Thing(f"`{key}` in {bucket}", f"storage/projects/_/buckets/{bucket}/objects/{key}")


def _topic(team: str) -> Thing:
    return Thing(f"the topic of {team}-dev", f"pubsub/projects/{PROJECT}/topics/{team}-dev-cpu-topic-{SUFFIX}")


def _channel(team: str) -> Thing:
    return Thing(f"the topic for jobs of {team}-dev", f"pubsub/projects/{PROJECT}/topics/{team}-oncall")


def _subscription(team: str, kind: str = "work") -> Thing:
    text = "subscription" if kind == "work" else "dead letters"
    name = f"pubsub/projects/{PROJECT}/subscriptions/{team}-dev-cpu-{kind}-{SUFFIX}"
    return Thing(f"the {text} of {team}-dev", name)


def _secret(team: str) -> Thing:
    return Thing(f"the secret of {team}-dev", f"secretmanager/projects/{PROJECT}/secrets/{team}-token/versions/1")


ADAS = Thing("the personal secrets of ada-dev", f"secretmanager/projects/{PROJECT}/secrets/ada-dev-personal/versions/1")
ADAS_SECRET = Thing(ADAS.text, ADAS.name.partition("/versions/")[0])


def _images(team: str) -> Thing:
    name = f"artifactregistry/projects/{PROJECT}/locations/us-central1/repositories/{team}-dev"
    return Thing(f"the registry of {team}-dev", name)


def _account(account: str) -> Thing:
    name = f"iam/projects/{PROJECT}/serviceAccounts/{account}@{PROJECT}.iam.gserviceaccount.com"
    return Thing(f"the account `{account}`", name)


def _lines(team: str) -> Thing:
    name = f"logging/projects/{PROJECT}/locations/us-central1/buckets/{team}-dev-logs-{SUFFIX}/views/_AllLogs"
    return Thing(f"the log lines of {team}-dev", name)


CAPACITY = Thing("the capacity of a region", f"compute/projects/{PROJECT}/regions/us-central1/advice")
WHOLE = Thing("the project", f"cloudresourcemanager/projects/{PROJECT}")
MACHINE = Thing("a machine", f"compute/projects/{PROJECT}/zones/us-central1-a/instances/vision-dev-cpu-spot-x1y2")
GROUP = Thing(
    "the machine group of audio-dev",
    f"compute/projects/{PROJECT}/regions/us-central1/instanceGroupManagers/audio-dev-cpu-spot-{SUFFIX}",
)
STATE = _bucket(STATE_BUCKET, ".pulumi/stacks/tidemill/vision-gcp-dev.json")
ARCHIVE = {
    team: _bucket(f"{team}-dev-logs-archive-{SUFFIX}", "a/2026/11/22/lines.json") for team in ("vision", "audio")
}
KEY = Thing("the key of the state", f"cloudkms/{GOOGLE_KEY}")

POOL = Thing("CI's identity pool", f"iam/projects/{PROJECT}/locations/global/workloadIdentityPools/tidemill-ci")
FILES = Thing("the project's file systems", f"cloudresourcemanager/projects/{PROJECT}")

PROBES = [
    *of(
        "submitter",
        yes("pubsub.topics.publish", _topic("vision"), "It is what a submitter is for."),
        no("pubsub.topics.publish", _topic("audio"), "The queue is another team's."),
        yes("pubsub.topics.publish", _channel("vision"), "Who cancels a job tells its end."),
        no("pubsub.topics.publish", _channel("audio"), "The topic is another team's."),
        no("pubsub.subscriptions.consume", _subscription("vision"), "Only machines take work."),
        yes("pubsub.subscriptions.consume", _subscription("vision", "dead"), "`retry --dead` does."),
        no("pubsub.subscriptions.consume", _subscription("audio", "dead"), "It is another team's."),
        no("pubsub.topics.delete", _topic("vision"), "Queues are the stack's."),
        yes("storage.objects.get", _store("vision", "pipeline.json"), "Clients read it first."),
        no("storage.objects.create", _store("vision", "pipeline.json"), "Every client believes it."),
        yes("storage.objects.create", _store("vision", "jobs/a/job.json"), "A submit writes the job."),
        yes("storage.objects.create", _store("vision", "uploads/0a/a.jpg"), "A submit brings local files."),
        yes("storage.objects.get", _store("vision", "state/a/0/snapshots/1.json"), "`fetch` brings state."),
        no("storage.objects.create", _store("vision", "state/a/0/snapshots/1.json"), "It is the word of a worker."),
        no("storage.objects.create", _store("vision", "out/a/0"), "Outputs are the workers'."),
        no("storage.objects.create", _store("audio", "jobs/a/job.json"), "It is another team's."),
        no("storage.objects.create", _store("audio", "uploads/0a/a.jpg"), "It is another team's."),
        no("storage.objects.create", _store("vision", "removals/a"), "Only who may delete begins a removal."),
        yes("storage.objects.create", _store("vision", "fleet/held/a.json"), "A job may wait for another one."),
        no("storage.objects.create", _store("vision", "fleet/reconciler.json"), "Only the reconciler reports."),
        no("storage.objects.get", _store("audio", "out/a/0"), "The store is another team's."),
        no("storage.objects.delete", _store("vision", "out/a/0"), "Nothing that finished is lost."),
        no("storage.objects.delete", _store("vision", "state/a/0/snapshots/1.json"), "`tidemill rm` is the owner's."),
        yes("logging.views.access", _lines("vision"), "`tidemill logs` shows them."),
        no("logging.views.access", _lines("audio"), "The lines are another team's."),
        no("storage.objects.get", ARCHIVE["vision"], "The archive is for the stack's owner."),
        no("storage.objects.get", ARCHIVE["audio"], "The lines are another team's."),
        no("logging.queries.share", WHOLE, "Stacks save queries."),
        no("secretmanager.versions.access", _secret("vision"), "Only machines get secrets."),
        no("secretmanager.versions.access", ADAS, "They are one person's."),
        no("iam.serviceAccounts.actAs", _account("vision-dev-worker"), "It would run as a machine."),
        no("iam.serviceAccounts.getAccessToken", _account("vision-dev-worker"), "It would be a machine."),
        no("compute.instances.create", WHOLE, "Groups start machines."),
        yes("compute.advice.capacity", CAPACITY, "With `access.advise`: `tidemill advise` asks it."),
        yes("compute.advice.capacityHistory", CAPACITY, "With `access.advise`: reclaims and prices."),
        no("compute.instances.list", WHOLE, "Advice is about what Google has, not about what others run."),
        no("compute.advice.calendarMode", CAPACITY, "It plans reservations, which stacks do not make."),
        no("compute.machineTypes.list", WHOLE, "The package has a table of them."),
    ),
    *of(
        "without",
        yes("pubsub.topics.publish", _topic("audio"), "It is what a submitter is for."),
        no("compute.advice.capacity", CAPACITY, "The stack does not grant it."),
        no("compute.advice.capacityHistory", CAPACITY, "The stack does not grant it."),
    ),
    *of(
        "machine",
        yes("pubsub.subscriptions.consume", _subscription("vision"), "A worker takes work."),
        no("pubsub.subscriptions.consume", _subscription("audio"), "The work is another team's."),
        no("pubsub.topics.publish", _topic("vision"), "User code starts no jobs."),
        yes("pubsub.topics.publish", _channel("vision"), "The worker of a job's last chunk tells its end."),
        no("pubsub.topics.publish", _channel("audio"), "The topic is another team's."),
        no("pubsub.topics.delete", _channel("vision"), "The topic is people's own."),
        yes(
            "storage.objects.get", _store("vision", "uploads/0a/a.jpg"), "Items may be files that a submitter brought."
        ),
        no(
            "storage.objects.create",
            _store("vision", "uploads/0a/a.jpg"),
            "User code must not change other jobs' data.",
        ),
        yes("storage.objects.create", _store("vision", "out/a/0"), "A worker writes outputs."),
        no("storage.objects.create", _store("vision", "fleet/held/a.json"), "User code starts no jobs."),
        no("storage.objects.delete", _store("vision", "fleet/held/a.json"), "A job that waits begins."),
        no("storage.objects.create", _store("vision", "fleet/reconciler.json"), "Only the reconciler reports."),
        no("storage.objects.create", _store("vision", "fleet/unserved/cpu"), "It is the reconciler's memory."),
        no("storage.objects.create", _store("vision", "fleet/warm/cpu"), "The reconciler says who stays."),
        yes("storage.objects.get", _store("vision", "fleet/warm/cpu"), "An idle machine looks whether it stays."),
        yes("storage.objects.delete", _store("vision", "fleet/alive/m"), "A worker repeats that it is alive."),
        yes("storage.objects.create", _store("vision", "fleet/errors/m.json"), "A machine says why it cannot work."),
        no("storage.objects.delete", _store("vision", "fleet/errors/m.json"), "What a machine has said stays."),
        yes("storage.objects.create", _store("vision", "state/a/0/snapshots/1.json"), "A worker saves state."),
        no("storage.objects.get", _store("audio", "state/a/0/snapshots/1.json"), "The state is another team's."),
        no("storage.objects.create", _store("vision", "pipeline.json"), "User code must not steer clients."),
        no("storage.objects.create", _store("vision", "reconciler/a.zip"), "User code must not become the reconciler."),
        no("storage.objects.create", _store("vision", "removals/a"), "Only who may delete begins a removal."),
        no("storage.objects.get", _store("audio", "out/a/0"), "The store is another team's."),
        yes("storage.objects.get", _bucket("raw-images", "a.jpg"), "The stack lists it under data.read."),
        no("storage.objects.create", _bucket("features", "audio/a"), "The prefix is another team's."),
        yes("secretmanager.versions.access", _secret("vision"), "The queue names it."),
        no("secretmanager.versions.access", _secret("audio"), "The secret is another team's."),
        no("secretmanager.versions.access", ADAS, "They are for jobs of another stack."),
        no("compute.advice.capacity", CAPACITY, "User code asks nothing about the project."),
        no("artifactregistry.repositories.downloadArtifacts", _images("audio"), "The images are another team's."),
        no(
            "artifactregistry.repositories.uploadArtifacts",
            _images("vision"),
            "Nothing that runs changes what will run.",
        ),
        no("compute.instances.delete", MACHINE, "A machine powers itself off."),
        no("file.instances.get", FILES, "Machines mount over the network, without a login."),
        no("file.instances.delete", FILES, "User code takes no data away."),
        no("compute.instanceGroupManagers.update", GROUP, "Only the reconciler does."),
        no("monitoring.timeSeries.create", WHOLE, "Nothing on a machine writes metrics."),
    ),
    *of(
        "ada",
        yes("secretmanager.versions.add", ADAS_SECRET, "`tidemill secret set` and `rm` do."),
        yes("secretmanager.versions.destroy", ADAS, "What was removed must be gone."),
        yes("secretmanager.versions.access", ADAS, "A change keeps the other values."),
        no("secretmanager.versions.access", _secret("vision"), "The secret is another team's."),
        no("secretmanager.secrets.setIamPolicy", ADAS_SECRET, "The stack says who may read it."),
        no("secretmanager.secrets.delete", ADAS_SECRET, "The stack does."),
    ),
    *of(
        "machine of ada",
        yes("secretmanager.versions.access", ADAS, "A worker gives programs what their job names."),
        no("secretmanager.versions.add", ADAS_SECRET, "User code changes no secret."),
        no("secretmanager.versions.access", _secret("vision"), "The secret is another team's."),
    ),
    *of(
        "reconciler",
        yes("storage.objects.create", _store("vision", "fleet/warm/cpu"), "It says who stays."),
        no("storage.objects.get", _store("vision", "out/a/0"), "It reads no data."),
        yes("storage.objects.get", _store("vision", "jobs/a/job.json"), "It looks whether a job is complete."),
        yes("storage.objects.create", _store("vision", "jobs/b/begun"), "It lets a job begin that has waited."),
        no("storage.objects.delete", _store("vision", "jobs/a/job.json"), "It changes nothing of a job."),
        no("storage.objects.create", _store("vision", "pipeline.json"), "Every client believes it."),
        yes("pubsub.topics.publish", _topic("vision"), "It publishes a job that has waited."),
        no("pubsub.topics.publish", _topic("audio"), "The queue is another team's."),
        yes("pubsub.subscriptions.consume", _subscription("vision"), "It drops chunks of ended jobs if no worker can."),
        no("pubsub.subscriptions.consume", _subscription("vision", "dead"), "Dead letters are the clients'."),
        no("pubsub.subscriptions.consume", _subscription("audio"), "The queue is another team's."),
        no("compute.instances.create", WHOLE, "Groups start machines."),
        yes(
            "compute.instanceGroupManagers.update",
            GROUP,
            "Compute Engine has no binding for a group: the project is the wall.",
        ),
    ),
    *of(
        "preview",
        yes("storage.objects.get", STATE, "A preview reads the state."),
        no("storage.objects.create", STATE, "A pull request changes nothing."),
        yes("file.instances.get", FILES, "A preview compares sizes."),
        no("file.instances.update", FILES, "A pull request changes nothing."),
        yes("storage.objects.get", _store("vision", "pipeline.json"), "It holds no secret."),
        no("storage.objects.get", _store("vision", "out/a/0"), "Data is none of CI's."),
        no("secretmanager.versions.access", _secret("vision"), "Secrets are none of CI's."),
        yes("compute.advice.capacity", CAPACITY, "A review tells of Spot fleets with a low score."),
        no("compute.advice.capacityHistory", CAPACITY, "A review needs no prices of other days."),
        no("cloudkms.cryptoKeyVersions.useToEncrypt", KEY, "It decrypts, for the preview."),
        yes("compute.firewalls.list", WHOLE, "A drift check tells of rules that were added by hand."),
        no("compute.firewalls.create", WHOLE, "A drift check opens nothing."),
        no("compute.firewalls.delete", WHOLE, "A drift check closes nothing."),
        yes("resourcemanager.projects.getIamPolicy", WHOLE, "A drift check tells of roles that were added by hand."),
        no("resourcemanager.projects.setIamPolicy", WHOLE, "A drift check grants nothing."),
        no("iam.serviceAccounts.getAccessToken", _account("tidemill-ci-dev-deploy"), "GitHub decides who deploys."),
        yes("iam.workloadIdentityPoolProviders.get", POOL, "`drift` compares whom the pool admits."),
        no("iam.workloadIdentityPoolProviders.update", POOL, "It would admit anybody's workflows."),
        yes("iam.workloadIdentityPools.get", POOL, "`drift` of the bootstrap stack compares it."),
        no("iam.workloadIdentityPools.delete", POOL, "CI changes nothing of CI."),
        yes("serviceusage.services.get", WHOLE, "`drift` compares which APIs are enabled."),
        no("serviceusage.services.enable", WHOLE, "A pull request changes nothing."),
    ),
    *of(
        "deploy-dev",
        no("iam.workloadIdentityPoolProviders.update", POOL, "CI changes nothing of CI."),
        yes("storage.objects.create", STATE, "A deploy writes the state."),
        no("storage.objects.get", _store("vision", "out/a/0"), "A deploy reads no data."),
        yes("monitoring.alertPolicies.create", WHOLE, "Stacks make alarms."),
        yes("monitoring.dashboards.create", WHOLE, "Stacks make dashboards."),
        yes("file.instances.create", FILES, "Stacks make file systems."),
        no("file.backups.delete", FILES, "Backups are people's own."),
        no("file.instances.revert", FILES, "Stacks take no snapshots, and go back to none."),
        yes("logging.queries.share", WHOLE, "Stacks save queries for everyone in the project."),
        no("logging.logEntries.list", WHOLE, "The person who opens a saved query runs it, not CI."),
        no("monitoring.timeSeries.create", WHOLE, "Only Google writes metrics."),
        no("secretmanager.versions.access", _secret("vision"), "Secrets are none of CI's."),
        yes("cloudkms.cryptoKeyVersions.destroy", KEY, "A stack that goes takes its keys with it."),
        no("iam.serviceAccountKeys.create", _account("vision-dev-worker"), "There is no key to lose."),
        yes(
            "resourcemanager.projects.setIamPolicy",
            WHOLE,
            "A stack gives its machines roles on the project: the project is the wall.",
        ),
    ),
    *of(
        "gitlab",
        yes(_BE, _login("preview", "from a branch", ref="mine", ref_protected="false"), "Merge requests are reviewed."),
        no(
            _BE,
            _login("preview", "from another project of the path", project_id="43"),
            "A path can be used again by others.",
        ),
        no(
            _BE,
            _login("preview", "from a fork", project_path="somebody/infra"),
            "A fork has a login of its own or none.",
        ),
        yes(_BE, _login("deploy-prod", "from `main` in its environment"), "It deploys what is merged."),
        no(
            _BE, _login("deploy-prod", "in dev's environment", environment="dev"), "Each environment has its approvals."
        ),
        no(
            _BE,
            _login("deploy-prod", "from a merge request", pipeline_source="merge_request_event"),
            "It may run the code of another branch.",
        ),
        no(_BE, _login("deploy-prod", "from a branch", ref="mine"), "Only `ci.branch` deploys."),
        no(
            _BE,
            _login("deploy-prod", "from `main` without protection", ref_protected="false"),
            "Anyone might push to it.",
        ),
        no(
            _BE,
            _login("deploy-prod", "in an environment without protection", environment_protected="false"),
            "Any job may name it.",
        ),
    ),
    *google_sender.PROBES,
]
