"""The network: ingress, public addresses, public buckets and egress."""

import base64
import contextlib
import json
import re
import ssl
from collections.abc import Iterator
from typing import Any

from ops.review.compute import ENVIRONMENT, TEMPLATES
from ops.review.diffs import at
from ops.review.document import Step
from ops.review.models import Finding, Severity
from ops.review.values import UNKNOWN, is_unknown, number, objects

_INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
_EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
_RULE = "aws:ec2/securityGroupRule:SecurityGroupRule"
_GROUP = "aws:ec2/securityGroup:SecurityGroup"
_SUBNET = "aws:ec2/subnet:Subnet"
_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_BLOCKS = {
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": "bucket",
    "aws:s3/accountPublicAccessBlock:AccountPublicAccessBlock": "account",
}
_FIREWALL = "gcp:compute/firewall:Firewall"
_ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
_SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
_BUCKET = "gcp:storage/bucket:Bucket"
_WORLD = frozenset({"0.0.0.0/0", "::/0"})
_SOURCE_GROUPS = ("referencedSecurityGroupId", "sourceSecurityGroupId")
_FLAGS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
_GONE = ("delete", "discard")
_HIDDEN = (
    "the machines' start is known after up, and with it their proxy and authorities: make the file system that they "
    "mount in a change of its own"
)


def findings(steps: list[Step]) -> Iterator[Finding]:
    """Findings of the kind `network-opened`."""
    live = [step for step in steps if step.type.startswith(("aws:", "gcp:"))]
    made = {step.urn for step in live if step.op == "create"}
    for step in live:
        if step.op == "same":
            continue
        if step.type == _FIREWALL and step.op == "delete" and step.old.get("denies"):
            yield _finding(step, "high", "a rule that denies goes: rules that somebody made by hand may let in")
        if step.type in (_INGRESS, _RULE, _GROUP, _FIREWALL):
            yield from _ways_in(step, made)
        elif step.type in _BLOCKS:
            yield from _block(step)
        elif step.type == _BUCKET and step.op in ("update", "replace"):
            yield from _prevention(step)
        elif step.type in TEMPLATES and step.op in ("update", "replace"):
            yield from _moved(step)
        elif step.type == _ASSOCIATION and step.op == "update" and step.old.get("subnetId") == step.new.get("subnetId"):
            title = "machines of a zone get another way out: connections that are open end once"
            yield _finding(step, "medium", title, "Programs that ask again go on; running machines stay.")
        elif step.type == _SUBNETWORK and step.op == "update":
            yield from _range(step)
        elif step.type == _EGRESS and step.op in ("create", "update", "replace"):
            yield from _way_out(step, live)
    yield from _egress(live)
    yield from _outside(live)


def egress(steps: list[Step], before: bool) -> set[str]:
    """How machines reach the internet, from the resources: `public`, `nat`, `endpoints`; empty without a network."""
    modes = set()
    used = _used(steps, before)
    for step in steps:
        state = step.before if before else step.after
        if not state or (step.type == _SUBNET and used and step.urn not in used):
            continue
        if step.type in ("aws:ec2/natGateway:NatGateway", "gcp:compute/routerNat:RouterNat"):
            modes.add("nat")
        elif _has_addresses(step.type, state.inputs):
            modes.add("public")
        elif step.type == "aws:ec2/vpcEndpoint:VpcEndpoint" and state.inputs.get("vpcEndpointType") == "Interface":
            modes.add("endpoints")
    return modes


def _used(steps: list[Step], before: bool) -> set[str]:
    """Subnets of machines, without a NAT gateway's own; empty if there is no compute environment."""
    states = [step.before if before else step.after for step in steps if step.type == ENVIRONMENT]
    return {urn for state in states if state for urn in state.property_dependencies.get("computeResources") or []}


def _has_addresses(kind: str, inputs: dict[str, Any]) -> bool:
    """True if machines of a subnet or template get public addresses."""
    if kind == _SUBNET:
        return inputs.get("mapPublicIpOnLaunch") is True
    if kind == _TEMPLATE:
        interfaces = objects(inputs.get("networkInterfaces"))
        return any(str(each.get("associatePublicIpAddress")).lower() == "true" for each in interfaces)
    if kind in TEMPLATES:
        return any(each.get("accessConfigs") for each in objects(inputs.get("networkInterfaces")))
    return False


def _egress(steps: list[Step]) -> Iterator[Finding]:
    old, new = egress(steps, before=True), egress(steps, before=False)
    used = _used(steps, before=False)
    public = [
        step
        for step in steps
        if (step.type != _SUBNET or not used or step.urn in used)
        and step.op != "same"
        and _has_addresses(step.type, step.new)
        and not _has_addresses(step.type, step.old)
    ]
    if public:
        first = not any(step.before for step in steps)
        names = tuple(sorted(step.name for step in public))
        severity: Severity = "low" if first else "medium" if "public" in old else "high"
        title = "machines get public addresses: egress is public"
        title += f", was {_modes(old)}" if old - new or (old and "public" not in old) else ""
        yield Finding(severity, "network-opened", names[0], public[0].urn, title, names)
    elif old != new and (old or _stood(steps)):
        severity = "high" if "nat" in new - old and old <= {"endpoints"} else "medium"
        yield Finding(severity, "network-opened", "", "", f"egress is {_modes(new)}, was {_modes(old)}")


def _stood(steps: list[Step]) -> bool:
    """True if the stack had machines before, so that no way out was a choice."""
    return any(step.before and (step.type == ENVIRONMENT or step.type in TEMPLATES) for step in steps)


def _range(step: Step) -> Iterator[Finding]:
    old, new = (side.get("ipCidrRange") for side in (step.old, step.new))
    if old and new and old != new:
        title = f"the address range grows: {old} becomes {new}"
        told = "It cannot shrink again, and may overlap with networks that are peered."
        yield _finding(step, "medium", title, told)


def _modes(modes: set[str]) -> str:
    return " and ".join(sorted(modes)) or "closed"


def _moved(step: Step) -> Iterator[Finding]:
    """Machines on GCP that start in another network: other firewall rules, routes and neighbours apply."""
    old, new = ([each.get(key) for each in objects(side.get("networkInterfaces")) for key in ("network", "subnetwork")]
                for side in (step.old, step.new))  # fmt: skip
    pairs = [(_place(was), _place(is_)) for was, is_ in zip(old, new, strict=False)]
    moved = [f"{was or 'none'} to {is_ or 'none'}" for was, is_ in pairs if is_ not in (was, UNKNOWN)]
    if moved:
        title = "new machines start in another network: its firewall rules, routes and neighbours apply"
        yield _finding(step, "high", title, *moved)


def _place(value: Any) -> str:
    """A network's name in any of its forms; the provider's answers begin with an address, programs do not."""
    text = _text(value) if value else ""
    return text.partition("/v1/")[2] or text


def _own(step: Step, made: set[str]) -> bool:
    """True if this preview creates both a rule and the group that it lets in."""
    sources = step.new_state.property_dependencies if step.new_state else {}
    named = {key: sources.get(key) or [] for key in _SOURCE_GROUPS if is_unknown(step.new.get(key))}
    return step.op == "create" and bool(named) and all(urns and {*urns} <= made for urns in named.values())


def _ways_in(step: Step, made: set[str]) -> Iterator[Finding]:
    if step.op in _GONE:
        if step.type == _FIREWALL and step.old.get("denies"):
            yield _finding(step, "high", "a deny rule is deleted", *_sources(step.old))
        return
    new, old = _allowed(step.type, step.new), _allowed(step.type, step.old)
    added = sorted(set(new) - set(old))
    if added:
        world = any(source in _WORLD for source, _ in added)
        title = "lets the whole internet in" if world else "opens a new way in"
        severity: Severity = "critical" if world else "high"
        if not world and _own(step, made) and all(source == UNKNOWN for source, _ in added):
            title, severity = "lets in machines of this stack, which is new as well", "low"
        yield _finding(step, severity, title, *(f"{ports} from {s}" for s, ports in added))
    denied = step.type == _FIREWALL and step.op in ("update", "replace") and step.old.get("denies")
    if denied and (lost := _denied_less(step.old, step.new)):
        yield _finding(step, "high", "a deny rule denies less than before", *lost)


def _denied_less(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The ways in that a rule no longer denies; among rules the lower number comes first.

    Source: https://cloud.google.com/firewall/docs/firewalls#priority_order_for_firewall_rules
    """
    if new.get("disabled") is True and old.get("disabled") is not True:
        return ["it is disabled"]
    ranks = [number(side.get("priority")) or 1000 for side in (old, new)]
    sources = [{*_sources(side)} for side in (old, new)]
    protocols = [{str(each.get("protocol")) for each in objects(side.get("denies"))} for side in (old, new)]
    lost = set() if "all" in protocols[1] else protocols[0] - protocols[1]
    lost |= set() if _WORLD & sources[1] else sources[0] - sources[1]
    more = [f"priority {ranks[1]:g}, was {ranks[0]:g}: more rules take precedence"] if ranks[1] > ranks[0] else []
    return [*(f"{each} is no longer denied" for each in sorted(lost)), *more]


def _allowed(kind: str, inputs: dict[str, Any]) -> list[tuple[str, str]]:
    """(source, protocol and ports) of every ingress rule."""
    if not inputs:
        return []
    if is_unknown(inputs.get("ingress")) or is_unknown(inputs.get("allows")):
        return [(UNKNOWN, "known after up")]
    if kind == _FIREWALL:
        if inputs.get("direction", "INGRESS") != "INGRESS" or inputs.get("disabled") is True:
            return []
        ports = [f"{a.get('protocol')} {_text(a.get('ports') or 'all ports')}" for a in objects(inputs.get("allows"))]
        return [(source, port) for source in _sources(inputs) for port in ports]
    rules = [inputs]
    if kind == _GROUP:
        rules = objects(inputs.get("ingress"))
    elif kind == _RULE and inputs.get("type") != "ingress":
        return []
    return [(s, _ports(r)) for r in rules for s in _sources(r)]


def _sources(rule: dict[str, Any]) -> list[str]:
    keys = (
        "cidrIpv4", "cidrIpv6", "cidrBlocks", "ipv6CidrBlocks", "prefixListId", "prefixListIds",
        "referencedSecurityGroupId", "securityGroups", "sourceSecurityGroupId", "sourceRanges", "sourceTags",
        "sourceServiceAccounts",
    )  # fmt: skip
    sources: list[str] = []
    for key in keys:
        value = rule.get(key)
        sources += [_text(each) for each in (value if isinstance(value, list) else [value]) if each]
    if rule.get("self") is True:
        sources.append("itself")
    # A firewall rule without a source applies to all sources.
    return sources or ["0.0.0.0/0"] if "direction" in rule or "allows" in rule else sources


def _ports(rule: dict[str, Any]) -> str:
    protocol = str(rule.get("ipProtocol", rule.get("protocol", "")))
    if protocol in ("-1", "all"):
        return "everything"
    first, last = rule.get("fromPort"), rule.get("toPort")
    return f"{protocol} {first}" if first == last else f"{protocol} {first} to {last}"


def _way_out(step: Step, steps: list[Step]) -> Iterator[Finding]:
    if not any(each.before for each in steps):
        return  # A new stack had no machines before.
    added = sorted(set(_sources(step.new)) - set(_sources(step.old)))
    if added:
        title = "lets machines reach more"
        yield _finding(step, "medium", title, *(f"{_ports(step.new)} to {target}" for target in added))


def _block(step: Step) -> Iterator[Finding]:
    if step.op in _GONE:
        yield _finding(step, "critical", f"the {_BLOCKS[step.type]}'s public access block is deleted")
        return
    open_now = [flag for flag in _FLAGS if step.new.get(flag) is not True and step.old.get(flag, True) is True]
    if open_now:
        yield _finding(step, "critical", "no longer blocks public access", *(f"{flag} is off" for flag in open_now))


def _prevention(step: Step) -> Iterator[Finding]:
    for path, wanted in ((("publicAccessPrevention",), "enforced"), (("uniformBucketLevelAccess",), True)):
        if at(step.old, path) == wanted and at(step.new, path) != wanted:
            yield _finding(step, "critical", f"no longer blocks public access: {path[0]} was {wanted}")


def _outside(steps: list[Step]) -> Iterator[Finding]:
    """Another proxy or other authorities of machines, each told once for all of their templates.

    A new template is compared with those that stood: a queue that goes and comes under another name has one.
    """
    said: dict[tuple[Severity, str], list[Step]] = {}
    live = [step for step in steps if step.type in (_TEMPLATE, *TEMPLATES)]
    stood = next((boot for step in live if (boot := _boot(step.old))), "")
    for step in live:
        new = _boot(step.new)
        if step.op in ("create", "update", "replace") and new and (old := _boot(step.old) or stood):
            for each in [*_proxies(old, new), *_authorities(old, new)]:
                said.setdefault(each, []).append(step)
        elif step.op in ("update", "replace") and _boot(step.old):
            said.setdefault(("high", _HIDDEN), []).append(step)
    for (severity, title), changed in said.items():
        names = tuple(sorted(step.name for step in changed))
        yield Finding(severity, "network-opened", names[0], changed[0].urn, title, names)


def _proxies(old: str, new: str) -> Iterator[tuple[Severity, str]]:
    was, now = (re.findall(r"\bHTTPS_PROXY=(http://[\w.:-]+)", text)[:1] for text in (old, new))
    if was and not now:
        yield "high", f"machines and jobs no longer go through the proxy {was[0]}"
    elif was != now:
        yield "medium", f"machines and jobs go through the proxy {now[0]}, were {'on ' + was[0] if was else 'without'}"
    if was and now:
        before, after = ({*"".join(re.findall(r"\bNO_PROXY=(\S+)", each)[:1]).split(",")} - {""} for each in (old, new))
        for title, hosts in (("goes past the proxy", after - before), ("goes through the proxy now", before - after)):
            if hosts:
                yield "medium", f"{title}: {', '.join(sorted(hosts))}"


def _authorities(old: str, new: str) -> Iterator[tuple[Severity, str]]:
    was, now = (dict(_trusted(text)) for text in (old, new))
    for each in sorted(now.keys() - was.keys()):
        yield "high", f"machines and jobs trust {now[each]}: whoever has its key can read and change their TLS traffic"
    for each in sorted(was.keys() - now.keys()):
        yield "medium", f"machines and jobs no longer trust {was[each]}: what it signed is refused"


def _trusted(text: str) -> Iterator[tuple[str, str]]:
    """(certificate, its common name)"""
    for pem in re.findall(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\r\n]+-----END CERTIFICATE-----", text):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with contextlib.suppress(ssl.SSLError):
            context.load_verify_locations(cadata=pem)
        said = json.dumps([each.get("subject") for each in context.get_ca_certs()])
        named = re.search(r'"commonName", ("(?:[^"\\]|\\.)*")', said)
        yield pem, str(json.loads(named[1])) if named else "an authority"


def _boot(inputs: dict[str, Any]) -> str:
    """A template's boot script: base64 on AWS, a JSON document behind one line on GCP; empty if it is not known."""
    data = inputs.get("userData") or at(inputs, ("metadata", "user-data"))
    if not isinstance(data, str) or is_unknown(data):
        return ""
    if not data.startswith("#cloud-config"):
        with contextlib.suppress(ValueError):
            return base64.b64decode(data).decode(errors="replace")
        return ""
    with contextlib.suppress(ValueError):
        files = objects(json.loads(data.partition("\n")[2]).get("write_files"))
        return "\n".join(str(each.get("content")) for each in files)
    return ""


def _text(value: Any) -> str:
    if is_unknown(value):
        return UNKNOWN
    return ", ".join(map(_text, value)) if isinstance(value, list) else str(value)


def _finding(step: Step, severity: Severity, title: str, *details: str) -> Finding:
    return Finding(severity, "network-opened", step.name, step.urn, title, details)
