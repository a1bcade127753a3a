"""What a submit looks at before it writes. What this cannot prove: what a cloud's store answers to a person's login."""

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, NotSupportedError, PermissionDeniedError

from tests.unit.client_fakes import pipeline, uris
from tidemill.client import Pipeline
from tidemill.errors import CallerError, CloudError, StoreDeniedError
from tidemill.layout import CREATE_PROBE
from tidemill.store import Store
from tidemill.store import store as store_module

COMMAND = ["python3", "x.py", "{uri}"]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(store_module, "_PAUSES", (0.0, 0.0, 0.0))


def submit(target, **more):
    return target.submit(COMMAND, uris(3), queue="cpu", **more)


def answering(monkeypatch, answer):
    """A store whose conditional create answers so."""
    real = obstore.put

    def put(store, name, data, **options):
        return (
            answer(real, store, name, data) if options.get("mode") == "create" else real(store, name, data, **options)
        )

    monkeypatch.setattr(obstore, "put", put)


def overwrites(real, store, name, data):
    return real(store, name, data)


def not_supported(real, store, name, data):
    raise NotSupportedError("conditional put is not supported")


def not_implemented(real, store, name, data):
    raise GenericError("<Error><Code>NotImplemented</Code><Message>If-None-Match</Message></Error>")


@pytest.mark.parametrize("answer", [overwrites, not_supported, not_implemented])
def test_a_store_without_conditional_create_is_refused_with_the_reason(monkeypatch, answer):
    target, backend = pipeline()
    answering(monkeypatch, answer)
    with pytest.raises(CallerError, match="conditional create") as refused:
        submit(target)
    assert "If-None-Match" in str(refused.value)
    assert backend.arrays == []
    assert [name for name in target.store.list("jobs") if name != CREATE_PROBE] == []


def test_a_store_that_may_not_be_written_is_refused(monkeypatch):
    target, backend = pipeline()

    def denied(real, store, name, data):
        raise PermissionDeniedError("AccessDenied")

    answering(monkeypatch, denied)
    with pytest.raises(StoreDeniedError, match=r"may not be written .*tidemill:access"):
        submit(target)
    assert backend.arrays == []


def test_a_409_is_no_missing_conditional_create(monkeypatch):
    target, _ = pipeline()
    answers = iter([True])

    def conflict(real, store, name, data):
        if next(answers, False):
            raise AlreadyExistsError("ConditionalRequestConflict")
        return real(store, name, data, mode="create")

    answering(monkeypatch, conflict)
    assert submit(target).enqueued == 1


def test_the_probe_is_one_object_for_every_submit():
    target, _ = pipeline()
    for _ in range(3):
        submit(target)
    assert sorted(name for name in target.store.list("jobs") if name.count("/") == 1) == [CREATE_PROBE]
    assert len(target.jobs()) == 3


def test_an_output_that_this_machine_cannot_write_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    target, backend = pipeline(f"file://{tmp_path}/store")
    with pytest.raises(CallerError, match=r"output is 'file://.*a URI that the machines can write"):
        submit(target, output=f"file://{tmp_path}/file/out")
    assert backend.arrays == []
    assert submit(target, output=f"file://{tmp_path}/new/folder").enqueued == 1
    assert not (tmp_path / "new").exists()


class Elsewhere:
    """Stores outside the job store, whose listing answers so."""

    error: Exception | None = None

    def __init__(self, *arguments, **options):
        pass

    def locate(self, uri):
        return self, "prefix"

    def list(self, prefix):
        if self.error:
            raise self.error
        return iter(())


def test_an_output_elsewhere_is_looked_at(monkeypatch):
    target, backend = pipeline()
    monkeypatch.setattr("tidemill.client.site.Stores", Elsewhere)
    monkeypatch.setattr(Elsewhere, "error", CloudError("NoSuchBucket"))
    with pytest.raises(CallerError, match=r"output is 's3://elsewhere/x'.*NoSuchBucket"):
        submit(target, output="s3://elsewhere/x")
    assert backend.arrays == []
    monkeypatch.setattr(Elsewhere, "error", StoreDeniedError("no"))
    assert submit(target, output="s3://elsewhere/x").enqueued == 1


WRITABLE = ["s3://features/vision", "s3://all"]


@pytest.mark.parametrize(
    "output", ["s3://features/vision", "s3://features/vision/a/", "s3://features/vision2/a", "s3://all", "s3://all/x"]
)
def test_an_output_that_jobs_may_write_is_taken(monkeypatch, output):
    target, _ = pipeline(writable=WRITABLE)
    monkeypatch.setattr("tidemill.client.site.Stores", Elsewhere)
    said: list[str] = []
    monkeypatch.setattr(Elsewhere, "error", StoreDeniedError("no"))
    assert submit(target, output=output, log=said.append).enqueued == 1
    assert not any("data.write" in text for text in said), "the stack has said that jobs may"


@pytest.mark.parametrize(
    "output", ["s3://features", "s3://features/visio", "s3://all2/x", "s3://elsewhere/x", "memory:///jobs/x"]
)
def test_an_output_that_jobs_may_not_write_is_refused_and_the_places_are_named(output):
    target, backend = pipeline(writable=WRITABLE)
    with pytest.raises(CallerError) as refused:
        submit(target, output=output)
    assert str(refused.value) == (
        f"output is {output!r}; it must be a URI below memory:///out/, s3://features/vision, "
        "s3://all/. Leave it out for <store>/out/<job>, or ask the stack's owner to add it to tidemill:data.write."
    )
    assert backend.arrays == []
    assert list(target.store.list("jobs")) == []


def test_the_stores_own_out_is_always_allowed():
    target, _ = pipeline(writable=[])
    assert submit(target, output=f"{target.descriptor.store}/out/mine").enqueued == 1


CLOUD, SHARED, LOCAL = {"cloud": "aws"}, {"cloud": "aws", "files": True}, {"cloud": "local", "files": True}
ITEMS = {
    "a relative path on a cloud": ("photos/1.jpg", CLOUD, "no file of this machine is there.*{uri} instead"),
    "an absolute path on a cloud": ("/data/1.jpg", CLOUD, "no file of this machine is there"),
    "a file URI on a cloud": ("file:///data/1.jpg", CLOUD, "no file of this machine is there"),
    "a relative path, shared files": ("photos/1.jpg", SHARED, "a relative path"),
    "an absolute path, shared files": ("/data/1.jpg", SHARED, None),
    "a relative path here": ("photos/1.jpg", LOCAL, None),
    "a template that was not filled in": ("s3://[BUCKET]/x.jpg", LOCAL, "not a valid URI"),
    "half a template": ("s3://[x", CLOUD, "not a valid URI"),
    "a file URI with a bracket": ("file://[x/y", LOCAL, "not a valid URI"),
    "a NUL in disguise": ("file:///tmp/a%00b", LOCAL, "holds a NUL"),
    "a bucket": ("s3://raw", CLOUD, "names no object"),
    "a folder": ("s3://raw/a/", CLOUD, "empty, `.` or `..` part"),
    "two slashes": ("s3://raw/a//b", CLOUD, "empty, `.` or `..` part"),
    "a tab": ("s3://raw/a\tb", CLOUD, "a control character"),
    "a web address": ("https://example.com/1.jpg", CLOUD, "which Tidemill does not fetch"),
    "brackets and other characters": ("s3://raw/a [1] ü%00.jpg", CLOUD, None),
}


@pytest.mark.parametrize(("uri", "where", "says"), ITEMS.values(), ids=ITEMS)
def test_an_item_that_cannot_be_fetched_is_refused_with_its_place(tmp_path, uri, where, says):
    store = f"file://{tmp_path}" if where.get("files") else "memory://"
    target, backend = pipeline(store, cloud=where["cloud"])
    items = tmp_path / "list.txt"
    items.write_text(f"s3://raw/0.jpg\n{uri}\n")
    if says is None:
        assert target.submit(["cat", "{input}"], items, queue="cpu").spec.items_total == 2
        return
    with pytest.raises(CallerError, match=rf"list\.txt, line 2 is .*{says}"):
        target.submit(["cat", "{input}"], items, queue="cpu")
    assert backend.arrays == []


def test_what_is_only_a_name_is_not_looked_at(tmp_path):
    target, _ = pipeline()
    here = tmp_path / "here.txt"
    here.touch()
    said: list[str] = []
    assert (
        target.submit(["x", "{uri}"], [str(here), "s3://[x", "7"], queue="cpu", log=said.append).spec.items_total == 3
    )
    assert any("here.txt is a file of this machine" in text for text in said)


def test_pipelines_of_a_newer_schema_are_refused(tmp_path):
    Store.open(f"file://{tmp_path}").put("pipeline.json", b'{"schema_version": 2}')
    with pytest.raises(CallerError, match=r"has schema_version 2; tidemill .* reads 1"):
        Pipeline.load(f"file://{tmp_path}/pipeline.json")


# ---- what jobs may read --------------------------------------------------------------------------------------------

READABLE = ["s3://raw", "s3://features/vision/"]


@pytest.mark.parametrize(
    ("item", "fine"),
    [
        ("s3://raw/a.jpg", True),
        ("s3://features/vision/a", True),
        ("s3://raw-images/a.jpg", False),
        ("s3://features/audio/a", False),
    ],
)
def test_an_item_that_jobs_may_not_read_is_refused(item, fine):
    target, backend = pipeline(readable=READABLE)
    command = ["wc", "{input}", "{output}"]
    if fine:
        assert target.submit(command, [item], queue="cpu").enqueued == 1
    else:
        with pytest.raises(CallerError, match=r"items\[0\] is .*may not read.*s3://raw/.*tidemill:data.read"):
            target.submit(command, [item], queue="cpu")
        assert backend.arrays == []
        assert list(target.store.list("jobs")) == []
    # A program may have a login of its own, and this machine has no limits.
    assert target.submit(["wc", "{uri}", "{output}"], [item], queue="cpu").enqueued == 1
    assert pipeline()[0].submit(command, [item], queue="cpu").enqueued == 1


class Sampled:
    """Objects by name; the others are missing, or the caller is denied."""

    def __init__(self, sizes, denied=False):
        self.sizes, self.denied, self.asked = sizes, denied, []

    def locate(self, uri):
        return self, uri

    def size(self, name):
        self.asked.append(name)
        if self.denied:
            raise StoreDeniedError("no")
        return self.sizes.get(name)


@pytest.mark.parametrize(
    ("sizes", "denied", "said"),
    [
        ({}, False, "error"),
        ({}, True, []),
        ({"s3://raw/0.jpg": 1}, False, ["2 of 3 items that were looked at do not exist"]),
        (dict.fromkeys(uris(3), 1), False, []),
        (dict.fromkeys(uris(3), 101 * 2**30), False, ["101 GiB, and a machine of the queue has 100 GiB"] * 3),
    ],
)
def test_a_few_items_are_looked_at(monkeypatch, sizes, denied, said):
    target, backend = pipeline()
    stores = Sampled(sizes, denied)
    monkeypatch.setattr(Store, "is_object_store", True)
    monkeypatch.setattr("tidemill.client.site.Site.stores", lambda self: stores)
    heard: list[str] = []
    command = ["wc", "{input}", "{output}"]
    if said == "error":
        with pytest.raises(CallerError, match=r"does not exist, nor does any of the 2 others"):
            target.submit(command, uris(3), queue="cpu", log=heard.append)
        assert backend.arrays == []
        return
    target.submit(command, uris(3), queue="cpu", log=heard.append)
    about = [text for text in heard if "looked at" in text or "scratch" in text]
    assert len(about) == len(said)
    assert all(words in text for words, text in zip(said, about, strict=True))
    assert len(stores.asked) == 3


def test_a_preview_checks_as_a_submit_does_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    target, backend = pipeline()
    (tmp_path / "data").mkdir()
    for name in "abc":
        (tmp_path / "data" / name).write_text(name)
    command = ["wc", "{input}", "{output}"]
    found = target.preview(command, tmp_path / "data", queue="cpu", item_seconds=60)
    assert (found.items, found.upload_files, found.upload_bytes, found.uploaded_files) == (3, 3, 3, 0)
    assert (found.queue, found.chunks, found.machines[0]) == ("cpu", 3, "c7i.2xlarge")
    assert found.estimate is not None
    assert found.estimate.core_hours == 0.05
    assert list(target.store.list("")) == []
    assert backend.arrays == []
    assert target.preview(COMMAND, uris(9), queue="cpu", name="n").estimate is None
    with pytest.raises(CallerError, match="nothing"):
        target.preview(command, tmp_path / "nothing", queue="cpu")
    assert list(target.store.list("")) == []
    job = target.submit(command, tmp_path / "data", queue="cpu", item_seconds=60)
    assert job.spec.chunks_total == found.chunks
