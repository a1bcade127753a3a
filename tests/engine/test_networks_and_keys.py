"""Networks of every source of addresses, and keys of every part: they come up, settle and go.

localcloud's pool gives any range, and its keys encrypt nothing: whether AWS and Google accept them, an account tells.
"""

from tests.engine.google import purgeable_demo
from tests.engine.test_families import settles_and_goes

POOL = "ipam-pool-0123456789abcdef0"


def test_a_stack_on_aws_has_a_pool_and_keys(cloud, new_project):
    project = new_project("demo-aws")
    with project.config() as config:
        config["tidemill:allow"] = ["purge"]
        config["tidemill:network"] = {"create": {"ipam_pool": POOL, "netmask": 20, "zone_names": ["b", "c"]}}
        config["tidemill:registry"] = {"kms_key": "create"}
        config["tidemill:file_systems"] = {"shared": {"kms_key": "create"}}
    settles_and_goes(project)


def test_a_stack_on_gcp_has_keys(tmp_path_factory):
    with purgeable_demo(tmp_path_factory) as project:
        with project.config() as config:
            config["tidemill:registry"] = {"kms_key": "create"}
            config["tidemill:file_systems"] = {"shared": {"tier": "zonal", "zone": "a", "kms_key": "create"}}
        settles_and_goes(project)
