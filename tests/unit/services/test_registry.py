"""Services and clouds by their names."""

from __future__ import annotations

import pytest

from tests.unit.client_fakes import descriptor, queue
from tidemill import clouds, services
from tidemill.client import site
from tidemill.errors import CallerError


@pytest.mark.parametrize(("cloud", "name"), [("aws", "batch"), ("gcp", "pubsub"), ("local", "local")])
def test_a_queue_of_an_older_stack_has_the_first_service_of_its_cloud(cloud: str, name: str) -> None:
    service = services.of_queue(cloud, queue())
    assert (service.name, cloud in service.clouds) == (name, True)
    assert services.find(name) is service


def test_every_cloud_is_found_by_the_uris_of_its_stores() -> None:
    assert [cloud.name for cloud in clouds.every()] == ["aws", "gcp", "local"]
    assert [clouds.of_uri(f"{cloud.scheme}://x") for cloud in clouds.every()] == clouds.every()
    assert clouds.of_uri("memory://") is None


def test_a_name_that_nobody_has_is_told() -> None:
    assert services.find("nothing") is None
    assert services.find("backend") is None
    # A document may name a record, but no module inside a room.
    assert [find(name) for find in (services.find, clouds.find) for name in ("batch.backend", "batch.a.b", "..")] == (
        6 * [None]
    )
    with pytest.raises(LookupError, match="no service 'nothing'"):
        services.of_queue("aws", queue(service="nothing"))
    data = descriptor("s3://store", queues={"cpu": queue(service="nothing")}).model_dump_json().encode()
    with pytest.raises(CallerError, match=r"^queues\.cpu\.service is 'nothing'; .* Install the package"):
        site.parse_descriptor(data, "s3://store/pipeline.json")
    # A service of another cloud, whose backend would be handed a wrong account.
    with pytest.raises(LookupError, match="no service 'local'"):
        services.of_queue("aws", queue(service="local"))
    data = descriptor("s3://store", queues={"cpu": queue(service="pubsub")}).model_dump_json().encode()
    with pytest.raises(CallerError, match=r"'pubsub'; it must be a service for aws"):
        site.parse_descriptor(data, "s3://store/pipeline.json")
    data = descriptor("s3://store", cloud="nowhere").model_dump_json().encode()
    with pytest.raises(CallerError, match=r"^cloud is 'nowhere'; .* Install the package"):
        site.parse_descriptor(data, "s3://store/pipeline.json")


def test_a_descriptor_writes_a_service_only_where_a_queue_names_one() -> None:
    assert {"service", "place"}.isdisjoint(queue().model_dump())
    named = queue(service="toy", aws=None, place={"address": "x"})
    assert (named.model_dump()["service"], named.block) == ("toy", {"address": "x"})
