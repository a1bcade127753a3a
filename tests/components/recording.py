"""Pulumi mocks that record every resource, and a way to run a program under them in an event loop of its own."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pulumi
from pulumi.runtime import mocks
from pulumi.runtime import resource as registering
from pulumi.runtime.proto import source_pb2

ACCOUNT = "123456789012"
REGION = "us-west-2"
PROJECT = "vision-project"
PROJECT_NUMBER = "987654321098"
GCP_REGION = "us-central1"
STACK = "pulumi:pulumi:Stack"
ZONES = ["us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d"]

_INVOKES: dict[str, dict[str, Any]] = {
    "aws:index/getCallerIdentity:getCallerIdentity": {"accountId": ACCOUNT, "arn": "a", "id": ACCOUNT, "userId": "u"},
    "aws:index/getRegion:getRegion": {"region": REGION, "id": REGION, "name": REGION, "endpoint": ""},
    "aws:index/getPartition:getPartition": {
        "partition": "aws",
        "dnsSuffix": "amazonaws.com",
        "id": "aws",
        "reverseDnsPrefix": "com.amazonaws",
    },
    "aws:index/getAvailabilityZones:getAvailabilityZones": {
        "names": ZONES,
        "id": REGION,
        "zoneIds": [],
        "groupNames": [],
        "region": REGION,
    },
    "gcp:organizations/getClientConfig:getClientConfig": {
        "project": PROJECT,
        "region": GCP_REGION,
        "accessToken": "",
        "defaultLabels": {},
        "id": "",
        "zone": "",
    },
    "gcp:compute/getZones:getZones": {
        "names": [f"{GCP_REGION}-{letter}" for letter in ("a", "ai1a", "b", "c", "f")],
        "id": "",
        "project": PROJECT,
        "region": GCP_REGION,
    },
    "gcp:logging/getProjectCmekSettings:getProjectCmekSettings": {
        "serviceAccountId": f"cmek-p{PROJECT_NUMBER}@gcp-sa-logging.iam.gserviceaccount.com",
        "id": "",
        "kmsKeyName": "",
        "kmsKeyVersionName": "",
        "name": "",
        "project": PROJECT,
    },
    "gcp:storage/getProjectServiceAccount:getProjectServiceAccount": {
        "emailAddress": f"service-{PROJECT_NUMBER}@gs-project-accounts.iam.gserviceaccount.com",
        "id": "",
        "member": "",
        "project": PROJECT,
    },
    "gcp:organizations/getProject:getProject": {"number": PROJECT_NUMBER, "projectId": PROJECT, "id": PROJECT},
}


@dataclass
class Made:
    """A resource as the program registered it."""

    type: str
    name: str
    inputs: dict[str, Any]
    urn: str
    options: Mapping[str, Any]

    def document(self, key: str) -> dict[str, Any]:
        """An input that holds JSON, as data."""
        return json.loads(self.inputs[key])

    @property
    def kind(self) -> str:
        """``batch.ComputeEnvironment``, or a component's class name."""
        return _short(self.type)

    @property
    def chain(self) -> list[str]:
        """Types from the outermost parent to the resource itself."""
        return self.urn.split("::")[2].split("$")


@dataclass
class Recorder(mocks.Mocks):
    """Answers like a cloud, as far as the components read the answers, and records every call."""

    resources: list[Made] = field(default_factory=list)
    zones: list[str] = field(default_factory=lambda: list(ZONES))
    allotted: str = ""
    """The range that an IPAM pool gives."""
    region: str = REGION
    partition: tuple[str, str] = ("aws", "amazonaws.com")
    """AWS's partition of the region, and its DNS suffix."""
    impaired: set[str] = field(default_factory=set)
    """Zones that are not available today."""
    stacks: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Outputs of other stacks by `organization/project/stack`."""
    unsold: set[str] = field(default_factory=set)
    """Families and types that the region does not offer."""
    poor_zones: set[str] = field(default_factory=set)
    """Zones that offer no machine at all."""
    images: dict[str, dict[str, Any] | str] = field(default_factory=dict)
    """Machine images by their ids, or the error of looking one up."""
    file_systems: dict[str, int] = field(default_factory=dict)
    """Sizes in GiB of the Filestore instances of the tier basic_hdd that are there, by name."""
    subnets: dict[str, str] = field(default_factory=dict)
    """Zones of existing subnets by their ids."""
    named_subnets: dict[str, tuple[str, str]] = field(default_factory=dict)
    """VPC and `Name` of those that a network of the program made, by their ids."""

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        """Record a custom resource and return the outputs that others refer to."""
        name = args.name
        if args.typ == "pulumi:pulumi:StackReference":
            return args.inputs["name"], {**args.inputs, **self._outputs_of(args.inputs["name"])}
        outputs = dict(args.inputs)
        outputs.setdefault("name", f"{name}-1a2b3c4")
        outputs.setdefault("bucket", f"{name}-1a2b3c4")
        outputs["arn"] = f"arn:mock:{args.typ.split(':')[-1]}:{name}"
        outputs["arnPrefix"] = f"arn:mock:JobDefinition:{name}"
        outputs["latestVersion"] = 3
        outputs["keyId"] = f"{name}-key-id"
        outputs["ecsClusterArn"] = f"arn:mock:ecs:cluster/{name}"
        outputs["allocationId"] = f"{name}-allocation"
        if args.inputs.get("ipv4IpamPoolId"):
            outputs["cidrBlock"] = self.allotted
        if args.typ == "aws:batch/jobDefinition:JobDefinition":
            outputs["arn"] += ":1"
        if args.typ == "gcp:serviceaccount/account:Account":
            outputs["email"] = f"{args.inputs['accountId']}@{PROJECT}.iam.gserviceaccount.com"
        if args.typ == "gcp:logging/projectSink:ProjectSink":
            outputs["writerIdentity"] = f"serviceAccount:{name}@gcp-sa-logging.iam.gserviceaccount.com"
        if args.typ == "gcp:cloudfunctionsv2/function:Function":
            outputs["serviceConfig"] = {**args.inputs["serviceConfig"], "uri": f"https://{name}.run.app"}
        if args.typ == "gcp:filestore/instance:Instance":
            outputs["networks"] = [{**each, "ipAddresses": ["172.30.0.2"]} for each in args.inputs["networks"]]
        if args.typ == "gcp:projects/iAMCustomRole:IAMCustomRole":
            outputs["name"] = f"projects/{PROJECT}/roles/{args.inputs['roleId']}"
        return f"{name}-id", outputs

    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        """Answer an invoke; one that components may not use is an error."""
        if args.token == "pulumi:pulumi:readStackOutputs":
            known = args.args["name"] in self.stacks
            return self._outputs_of(args.args["name"]) if known else ({}, [("name", "unknown stack")])
        if args.token.endswith("getInstanceTypeOfferings"):
            asked, *where = args.args["filters"]
            zones = [zone for each in where for zone in each["values"]]
            if zones and set(zones) <= self.poor_zones:
                return {"id": REGION, "instanceTypes": [], "locations": [], "locationTypes": []}
            types = [each for each in asked["values"] if not {each, each.split(".")[0]} & self.unsold]
            return {"id": REGION, "instanceTypes": types, "locations": [], "locationTypes": []}
        if args.token.endswith(("getAmi", "compute/getImage:getImage")):
            return self._ami(args.args) if args.token.endswith("getAmi") else self._compute_image(args.args)
        if found := self._looked_up(args):
            return found
        answer = dict(_INVOKES[args.token])
        if args.token.endswith("getAvailabilityZones"):
            hidden = self.impaired if args.args.get("state") == "available" else set()
            answer["names"] = [zone for zone in self.zones if zone not in hidden]
        if args.token.endswith("getRegion"):
            answer["region"] = self.region
        if args.token.endswith("getPartition"):
            answer["partition"], answer["dnsSuffix"] = self.partition
        return answer

    def _ami(self, asked: dict[str, Any]) -> Any:
        (wanted,) = asked["filters"]
        found = self.images.get(wanted["values"][0], "Your query returned no results")
        return ({}, [("", found)]) if isinstance(found, str) else {"imageId": wanted["values"][0], **found}

    def _compute_image(self, asked: dict[str, Any]) -> Any:
        """Compute Engine's answer: by name or family, or by a filter that names its architecture.

        Source of the errors: data_source_google_compute_image.go of hashicorp/terraform-provider-google.
        """
        if found := re.fullmatch(r'\(name = "(.*)"\) \(architecture = "(.*)"\)', asked.get("filter", "")):
            image = self.images.get(found[1], {})
            if isinstance(image, dict) and image.get("architecture") == found[2]:
                return {"name": found[1], **image}
            return {}, [("", "your filter has returned more than one image or no image.")]
        name = asked.get("name") or asked["family"]
        image = self.images.get(name, f"googleapi: Error 404: The resource '{name}' was not found, notFound")
        return ({}, [("", image)]) if isinstance(image, str) else {"name": name, **image}

    def _looked_up(self, args: pulumi.runtime.MockCallArgs) -> Any:
        """Something that is there before the stack, or the error of looking it up."""
        kind = args.token.rpartition(":")[2]
        if kind == "getSubnet":
            zone = self.subnets.get(args.args["id"])
            vpc, _ = self.named_subnets.get(args.args["id"], ("vpc-other", ""))
            found = {"id": args.args["id"], "availabilityZone": zone, "vpcId": vpc}
            return found if zone else ({}, [("id", "InvalidSubnetID.NotFound")])
        if kind == "getSubnets":
            (wanted,) = args.args["filters"]
            assert wanted["name"] == "tag:Name"
            ids = [each for each, (_, name) in self.named_subnets.items() if name in wanted["values"]]
            return {"id": REGION, "region": REGION, "ids": ids}
        if kind in ("getBucket", "getSubnetwork"):
            return {"ipCidrRange": "10.8.0.0/20", "projectNumber": int(PROJECT_NUMBER), **args.args}
        if kind == "getMachineTypes":
            names = re.findall(r'name = "([^"]+)"', args.args["filter"])
            sold = [{"name": name} for name in names if not {name, name.rpartition("-")[0]} & self.unsold]
            zone = args.args["zone"]
            return {"id": zone, "machineTypes": [] if zone in self.poor_zones else sold, "project": PROJECT}
        if kind == "getInstance":
            size = self.file_systems.get(args.args["name"])
            shares = [{"name": "files", "capacityGb": size, "nfsExportOptions": [], "sourceBackup": ""}]
            return {"tier": "BASIC_HDD", "fileShares": shares} if size else ({}, [("name", "not found")])
        return None

    def _outputs_of(self, stack: str) -> dict[str, Any]:
        return {"name": stack, "outputs": self.stacks[stack], "secretOutputNames": []}

    def document_of(self, name: str, key: str = "policy") -> list[dict[str, Any]]:
        """The statements of the policy document of the resource with that name."""
        found = [made for made in self.resources if made.name == name and key in made.inputs]
        assert len(found) == 1, f"{name}: {sorted(made.name for made in self.resources if key in made.inputs)}"
        return json.loads(found[0].inputs[key])["Statement"]

    def of(self, kind: str) -> list[Made]:
        """Resources of a type: ``batch.ComputeEnvironment`` or a component's class name."""
        return [made for made in self.resources if made.kind == kind]

    def one(self, kind: str, name: str | None = None) -> Made:
        """The only resource of a type, or the one with that name."""
        found = [made for made in self.of(kind) if name is None or made.name == name]
        assert len(found) == 1, f"{kind} {name or ''}: {[made.name for made in self.of(kind)]}"
        return found[0]

    def counts(self) -> dict[str, int]:
        """How many resources there are of each type."""
        kinds = [made.kind for made in self.resources]
        return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


def _short(token: str) -> str:
    package, module, kind = token.split(":")
    return kind if package == "tidemill" else f"{module.split('/')[0]}.{kind}"


class _Monitor(mocks.MockMonitor):
    """Also records the options, which the mocks do not pass on."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._recorder = recorder

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """Build it like the engine, from the types of all parents except the stack; the mocks keep only one."""
        kinds = [kind for kind in parent.split("::")[2].split("$") if kind != STACK] if parent else []
        return f"urn:pulumi:test::tidemill::{'$'.join([*kinds, type_])}::{name}"

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802  the protocol's name
        answer = super().RegisterResource(request)
        if request.type == STACK:
            return answer
        inputs = pulumi.runtime.rpc.deserialize_properties(request.object)
        hooks = [name for names in (request.hooks.on_error,) for name in names] if request.HasField("hooks") else []
        options = {
            "protect": request.protect,
            "retain": request.retainOnDelete,
            "on_error": hooks,
            "dependencies": list(request.dependencies),
            "property_dependencies": {key: list(found.urns) for key, found in request.propertyDependencies.items()},
            "ignore_changes": list(request.ignoreChanges),
            "import": request.importId,
            "aliases": [
                (alias.spec.type or request.type, alias.spec.name or request.name) for alias in request.aliases
            ],
        }
        self._recorder.resources.append(Made(request.type, request.name, inputs, answer.urn, options))
        return answer


def run(program: Callable[[], Any], *, preview: bool = False, config: Mapping[str, str] | None = None) -> Recorder:
    """Run a program in an event loop of its own. Returns its registrations once all outputs are resolved."""
    return run_with(Recorder(), program, preview=preview, config=config)


def run_with(
    recorder: Recorder, program: Callable[[], Any], *, preview: bool = False, config: Mapping[str, str] | None = None
) -> Recorder:
    """Like `run`, with a recorder that answers differently."""
    # Calls of the mocks run in a thread, where these want a loop too and would leave a new one open in each.
    loop, answering = asyncio.new_event_loop(), asyncio.new_event_loop()
    thread = ThreadPoolExecutor(1, initializer=asyncio.set_event_loop, initargs=(answering,))
    loop.set_default_executor(thread)
    asyncio.set_event_loop(loop)
    try:
        pulumi.runtime.set_all_config(dict(config or {}))
        mocks.set_mocks(recorder, project="tidemill", stack="test", preview=preview, monitor=_Monitor(recorder))

        async def inner() -> None:
            program()

        # The engine alone shows where a program makes a resource, and the SDK's debug lines. Below pytest, the search
        # for the place takes a quarter of a run.
        silent = patch.object(pulumi.log, "debug", lambda *_, **__: None)
        with silent, patch.object(registering, "_get_stack_trace", source_pb2.StackTrace):
            loop.run_until_complete(pulumi.runtime.stack.run_pulumi_func(inner))
    finally:
        pulumi.runtime.set_all_config({})
        asyncio.set_event_loop(None)
        loop.close()
        thread.shutdown()
        answering.close()
    return recorder
