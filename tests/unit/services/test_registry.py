"""Services by their names, and a pipeline with queues of two of them. This cannot prove what an installer writes down
of a package's entry points."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import metadata
from types import ModuleType, SimpleNamespace

import pytest

from tests.unit.client_fakes import FakeBackend, descriptor, queue, uris
from tidemill import clouds, services
from tidemill.client import Pipeline, site
from tidemill.client.rounds import deliveries
from tidemill.errors import CallerError
from tidemill.services.batch import SERVICE as BATCH
from tidemill.store import Store

TOY = replace(BATCH, name="toy", title="Toy", package="toy", whole_cpus=False, most_dependencies=0, array_chunks=2)


class ToyBackend(FakeBackend):
    """The backend of a service that no file of the product knows."""

    service = TOY


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> list[ToyBackend]:
    """A package outside the repository with a service `toy`; the backends that were opened."""
    opened: list[ToyBackend] = []

    def open_backend(*_: object) -> ToyBackend:
        opened.append(ToyBackend())
        return opened[-1]

    module = ModuleType("toy.backend")
    module.open_backend = open_backend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toy", ModuleType("toy"))
    monkeypatch.setitem(sys.modules, "toy.backend", module)
    entry = SimpleNamespace(name="toy", load=lambda: TOY)
    monkeypatch.setattr(metadata, "entry_points", lambda group, name: [entry] if name == "toy" else [])
    return opened


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
    with pytest.raises(LookupError, match="no service 'nothing'"):
        services.of_queue("aws", queue(service="nothing"))
    data = descriptor("s3://store", queues={"cpu": queue(service="nothing")}).model_dump_json().encode()
    with pytest.raises(CallerError, match=r"^queues\.cpu\.service is 'nothing'; .* Install the package"):
        site.parse_descriptor(data, "s3://store/pipeline.json")
    data = descriptor("s3://store", cloud="nowhere").model_dump_json().encode()
    with pytest.raises(CallerError, match=r"^cloud is 'nowhere'; .* Install the package"):
        site.parse_descriptor(data, "s3://store/pipeline.json")


def test_a_package_outside_the_repository_runs_a_queue_of_a_pipeline(
    toy: list[ToyBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    real, batch = site.open_backend, FakeBackend()
    monkeypatch.setattr(
        site, "open_backend", lambda service, *given: real(service, *given) if service is TOY else batch
    )
    queues = {"cpu": queue(), "toys": queue(service="toy")}
    made = descriptor("memory://", queues=queues)
    pipeline = Pipeline(made, Store.open("memory://"))
    job = pipeline.submit(["x", "{uri}"], uris(10), queue="toys", name="tiles", chunk_size=1, cpus=0.5)
    other = pipeline.submit(["x", "{uri}"], uris(3), queue="cpu", name="other")
    assert [fake.array.size for fake in toy[0].arrays] == [2] * 5
    toy[0].run(pipeline, job.id, fail_items=[3])
    batch.run(pipeline, other.id)
    assert (job.status().state, job.status().failed, other.status().state) == ("finished", 1, "finished")
    assert [info.name for info in pipeline.queues()] == ["cpu", "toys"]
    assert len(toy) == 1


def test_a_descriptor_writes_a_service_only_where_a_queue_names_one() -> None:
    assert {"service", "place"}.isdisjoint(queue().model_dump())
    named = queue(service="toy", aws=None, place={"address": "x"})
    assert (named.model_dump()["service"], named.block) == ("toy", {"address": "x"})
