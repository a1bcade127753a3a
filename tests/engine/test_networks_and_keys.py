"""Networks of every source of addresses, and keys of every part: they come up, settle and go.

localcloud's pool gives any range, and its keys encrypt nothing: whether AWS and Google accept them, an account tells.
"""

from tests.engine.google import purgeable_demo
from tests.engine.test_families import settles_and_goes
from tests.tls_server import Authority

POOL = "ipam-pool-0123456789abcdef0"


def test_a_stack_on_aws_has_a_pool_and_keys(cloud, new_project):
    project = new_project("demo-aws")
    with project.config() as config:
        config["tidemill:allow"] = ["purge"]
        config["tidemill:network"] = {
            "create": {"ipam_pool": POOL, "netmask": 20, "zone_names": ["b", "c"], "flow_logs_days": 30}
        }
        config["tidemill:registry"] = {"kms_key": "create"}
        config["tidemill:disks"] = {"kms_key": "create"}
        config["tidemill:file_systems"] = {"shared": {"kms_key": "create"}}
        config["tidemill:proxy"] = {"url": "http://proxy.example.com:3128", "no_proxy": ["example.com"]}
        config["tidemill:certificates"] = Authority().pem
        config["tidemill:mirrors"] = {"docker.io": "123456789012.dkr.ecr.us-west-2.amazonaws.com/docker-hub"}
    settles_and_goes(project)


def test_a_gateway_per_zone_comes_and_goes_without_a_replacement(cloud, new_project):
    project = new_project("demo-aws")
    with project.config() as config:
        config["tidemill:allow"] = ["purge"]
        config["tidemill:network"] = {"create": {"egress": "nat", "zones": 2}}
    project.up().ok()
    for per_zone in (True, False):
        with project.config() as config:
            config["tidemill:network"] = {"create": {"egress": "nat", "zones": 2, "nat_per_zone": per_zone}}
        run = project.up().ok()
        assert not [step for step in run.steps if "replace" in step.op]
        changed = {step.kind.rpartition(":")[2] for step in run.steps if step.op == "update"}
        assert changed == {"RouteTableAssociation", "VpcEndpoint"}
        assert len(project.resources("aws:ec2/natGateway:NatGateway")) == 1 + per_zone
        assert project.up("--expect-no-changes").ok().plan == []
    with project.config() as config:
        config["tidemill:network"] = {"create": {"egress": "nat", "zone_names": ["b", "c"]}}
    project.up().ok()
    assert project.up("--expect-no-changes").ok().plan == []
    project.destroy().ok()


def test_a_stack_on_gcp_has_keys(tmp_path_factory):
    with purgeable_demo(tmp_path_factory) as project:
        with project.config() as config:
            config["tidemill:registry"] = {"kms_key": "create"}
            config["tidemill:network"] = {"create": {"flow_logs_days": 30}}
            config["tidemill:disks"] = {"kms_key": "create"}
            config["tidemill:topics"] = {"kms_key": "create"}
            config["tidemill:proxy"] = {"url": "http://proxy.example.com:3128", "no_proxy": ["example.com"]}
            config["tidemill:certificates"] = Authority().pem
            config["tidemill:mirrors"] = {"docker.io": "registry.example.com/docker-hub"}
            config["tidemill:file_systems"] = {"shared": {"tier": "zonal", "zone": "a", "kms_key": "create"}}
        settles_and_goes(project)
