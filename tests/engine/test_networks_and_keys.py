"""Networks of every source of addresses, and keys of every part: they come up, settle and go.

localcloud's pool gives any range, and its keys encrypt nothing: whether AWS and Google accept them, an account tells.
"""

from localcloud.cloud import GcpCloud
from tests.engine.google import Google
from tests.engine.test_families import settles_and_goes
from tests.harness import Project

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
    with GcpCloud(tmp_path_factory.mktemp("localcloud")) as running:
        google = Google(running)
        google.make_account("photographer")
        google.make_bucket("tidemill-demo-photos")
        project = Project(tmp_path_factory.mktemp("demo-gcp"), running.env, "demo-gcp")
        with project.config() as config:
            config["gcp:project"] = google.project
            config["tidemill:allow"] = ["purge"]
            config["tidemill:registry"] = {"kms_key": "create"}
            config["tidemill:file_systems"] = {"shared": {"tier": "zonal", "zone": "a", "kms_key": "create"}}
        settles_and_goes(project)
