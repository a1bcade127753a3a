"""The checks of `tidemill doctor`, each a finding with one command that fixes the problem."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

from tidemill import clouds
from tidemill.client.health.machine_faults import fleet_errors
from tidemill.client.health.preflight import where_outputs_go
from tidemill.client.health.queues import read_queues
from tidemill.client.health.reconciler import read_report
from tidemill.client.health.sender import sender_findings
from tidemill.client.site import Site, check_login, open_checks, read_site
from tidemill.clouds import Cloud
from tidemill.clouds.findings import Finding, access_command, login_fault
from tidemill.descriptor import Descriptor
from tidemill.errors import CallerError, CloudError, StoreDeniedError, StoreError
from tidemill.layout import DOCTOR_PROBE, FLEET_ERRORS, JOBS
from tidemill.store import Store

SHOWN = 3
_SKEWED = "this machine's clock is wrong: the store refuses its requests"
_CLOCK = "sudo timedatectl set-ntp true"


def check_pipeline(uri: str, output: str | None = None) -> Iterator[Finding]:
    """Look at everything that a submit needs, from the login to the fleet; findings come as they are made."""
    try:
        checked = check_login(uri)
    except CallerError as error:
        yield login_fault(error)
        return
    account = None
    if checked:
        login, account = checked
        yield login
        if login.verdict == "fault":
            return
    else:
        yield Finding("login", "ok", "this store needs none")
    try:
        site = read_site(uri)
    except (CallerError, CloudError) as error:
        yield _descriptor_fault(error)
        return
    yield _descriptor(site.descriptor, account)
    yield from store_findings(site.store)
    yield from output_findings(site.descriptor, output)
    for checks, own in open_checks(uri, site.descriptor):
        yield from checks.pipeline(own)
    if not checked:
        for queue in read_queues(site):
            verdict = "ok" if queue.state.accepting and queue.state.running else "fault"
            command = "" if verdict == "ok" else "pulumi up"
            yield Finding(f"queue {queue.name}", verdict, queue.state.detail, command, owner=bool(command))
    if site.reconciled:
        yield from reconciler_findings(site)
    yield from sender_findings(site)
    yield from fleet_findings(site.store)


# ---- descriptor ----------------------------------------------------------------------------------------------------


def _descriptor(descriptor: Descriptor, account: str | None) -> Finding:
    if account not in (None, descriptor.account):
        fault = f"the stack is in account {descriptor.account}, the login in {account}"
        return Finding("descriptor", "fault", f"{fault}. Use a profile of that account", "aws configure list-profiles")
    queues = ", ".join(sorted(descriptor.queues)) or "no queue"
    place = f"{descriptor.team}-{descriptor.environment} in {descriptor.region}"
    return Finding("descriptor", "ok", f"{place}, account {descriptor.account}, queues: {queues}")


def _descriptor_fault(error: CallerError | CloudError) -> Finding:
    if _skewed(error):
        return Finding("descriptor", "fault", _SKEWED, _CLOCK)
    command = error.command or "pulumi stack output pipeline_uri"
    return Finding("descriptor", "fault", str(error), command, owner=error.owner or not error.command)


def _skewed(error: CallerError | CloudError) -> bool:
    return isinstance(error, CloudError) and error.code == "RequestTimeTooSkewed"


# ---- store ---------------------------------------------------------------------------------------------------------


def store_findings(store: Store) -> Iterator[Finding]:
    """Check that the store can be written and read, and refuses a second create."""
    content = f"doctor {datetime.now(UTC).isoformat(timespec='seconds')} {secrets.token_hex(8)}".encode()
    try:
        store.put(DOCTOR_PROBE, content)
        if store.get(DOCTOR_PROBE) != content:
            yield Finding(
                "store", "fault", f"{store.uri_of(DOCTOR_PROBE)} reads otherwise than it was written", "tidemill doctor"
            )
        elif store.create(DOCTOR_PROBE, content + b" again").ours:
            advice = "outcomes would not be exactly once. Use a store that supports If-None-Match"
            yield Finding("store", "fault", f"{store.uri} has no conditional create; {advice}", "pulumi up", owner=True)
        else:
            yield Finding("store", "ok", f"{store.uri}: written, read, and a second create refused")
    except StoreError as error:
        if _skewed(error):
            yield Finding("store", "fault", _SKEWED, _CLOCK)
        elif isinstance(error, StoreDeniedError):
            denied = f"{store.uri_of(JOBS)} may not be written: {error}"
            yield Finding("store", "fault", denied, access_command(store.uri), owner=True)
        else:
            yield Finding("store", "fault", str(error), "tidemill doctor")
    except CallerError as error:
        yield Finding("store", "fault", str(error), "pulumi up", owner=True)


def output_findings(descriptor: Descriptor, output: str | None) -> Iterator[Finding]:
    writable = descriptor.writable
    if writable is None:
        return
    if output is not None and not descriptor.may_hold_outputs(output):
        command = f"pulumi config set --path 'tidemill:data.write[{len(writable)}]' {output.rstrip('/')}/ && pulumi up"
        allowed = where_outputs_go(descriptor)[0]
        yield Finding("output", "fault", f"jobs may not write to {output}; allowed: {allowed}", command, owner=True)
    else:
        yield Finding("output", "ok", f"jobs may write below {', '.join(descriptor.output_prefixes)}")


# ---- fleet ---------------------------------------------------------------------------------------------------------


def reconciler_findings(site: Site) -> Iterator[Finding]:
    """Find what keeps machines from coming, quotas and stockouts first, and whether the reconciler runs."""
    project, region = site.descriptor.account, site.descriptor.region
    jobs = f"gcloud scheduler jobs list --project {project} --location {region}"
    report = read_report(site.store)
    if report is None:
        problem = "it has not reported yet: stopped machines are not removed, no further rung opens"
        yield Finding("reconciler", "fault", problem, jobs, owner=True)
        return
    groups = f"gcloud compute instance-groups managed list --project {project}"
    for queue in sorted(site.descriptor.queues):
        for warning in (*report.problems(queue), *report.open_rungs(queue)):
            yield Finding("fleet", "warning", warning, groups, owner=True)
    # An answer of Google's tells the cloud's clock; its errors are findings already.
    with suppress(CloudError):
        read_queues(site)
    if late := report.late(site.account.now()):
        yield Finding("reconciler", "fault", late[0], jobs, owner=True)
    else:
        yield Finding("reconciler", "ok", f"it runs every {report.period_seconds:.0f} s")


def fleet_findings(store: Store) -> Iterator[Finding]:
    try:
        errors, count = fleet_errors(store)
    except CloudError as error:
        yield Finding("fleet", "unknown", f"its records cannot be read: {error}")
        return
    if not errors:
        yield Finding("fleet", "ok", "no machine has reported an error within a day")
    for error in errors:
        yield Finding("fleet", "fault", error.text(), show_command(store, error.name), owner=True)
    if count > len(errors):
        rest = f"{count - len(errors)} more machines"
        yield Finding("fleet", "fault", rest, show_command(store, FLEET_ERRORS), owner=True)


def show_command(store: Store, name: str) -> str:
    uri = store.uri_of(name)
    return (clouds.of_uri(uri) or Cloud).show.format(uri=uri, path=uri.partition("://")[2])
