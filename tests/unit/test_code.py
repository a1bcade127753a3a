"""Packing a folder of code and sending it. What this cannot prove: that a machine of a cloud can read what is sent."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile

import pytest
import zstandard

from tests.unit.client_fakes import pipeline, uris
from tidemill import code
from tidemill.client import Pipeline
from tidemill.code import entries, in_code, pack
from tidemill.errors import CallerError, DamagedError
from tidemill.ledger import Ledger

FILES = {"features.py": "print(1)\n", "lib/tool.py": "X = 2\n", "run.sh": "#!/bin/sh\n"}


@pytest.fixture
def folder(tmp_path):
    root = write(tmp_path / "src", FILES)
    (root / "run.sh").chmod(0o755)
    (root / "lib/link.py").symlink_to("../features.py")
    return root


def write(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def members(packed):
    with zstandard.open(packed.path, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        return {member.name: member for member in tar}


KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n"


# ---- what is packed ---------------------------------------------------------------------------------------------


def test_a_folder_is_packed_sorted_without_times_and_owners(folder):
    packed = pack(folder)
    found = members(packed)
    assert list(found) == ["features.py", "lib/link.py", "lib/tool.py", "run.sh"]
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in found.values()} == {(0, 0, 0, "", "")}
    assert [oct(found[name].mode) for name in ("features.py", "run.sh")] == ["0o644", "0o755"]
    assert (found["lib/link.py"].type, found["lib/link.py"].linkname) == (tarfile.SYMTYPE, "../features.py")
    assert packed.sha256 == hashlib.sha256(packed.path.read_bytes()).hexdigest()
    assert (packed.files, packed.size) == (4, sum(len(text) for text in FILES.values()))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".env", "W=1\n"),
        ("lib/.env.production", ""),
        (".netrc", ""),
        ("id_rsa", "k"),
        ("deploy/kubeconfig.yaml", ""),
        ("server.pfx", ""),
        ("keys/server.pem", KEY),
        ("notes.txt", f"the key is\n{KEY}"),
        ("sa.json", json.dumps({"type": "service_account", "private_key": KEY})),
        ("config.py", 'AWS = "AKIAABCDEFGHIJKLMNOP"'),
        ("config.py", f'HF = "hf_{"a" * 34}"'),
        ("my-credentials", f"[default]\naws_secret_access_key = {40 * 'w'}\n"),
        (".envrc", "export DB_PASSWORD=hunter2\n"),
        ("deploy/prod.env", "LOG=1\nAPI_KEY='abc'\n"),
        ("infra/terraform.tfstate", "{}"),
        ("prod.tfvars", 'db_password = "hunter2"\n'),
        ("server.jks", ""),
        ("old.pem", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"),
        ("me.asc", "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYBFabcdef\n"),
        ("pat.txt", f"github_pat_{30 * '1'}"),
        ("pulumi.json", f'{{"token": "pul-{40 * "a"}"}}'),
        ("config", "users:\n- user:\n    token: eyJhbGciOi\n"),
        (".yarnrc.yml", "npmAuthToken: npm_abc\n"),
        (".npmrc", "//registry.npmjs.org/:_authToken=npm_abc\n"),
        (".docker/config.json", '{"auths": {"ghcr.io": {"auth": "YTpi"}}}'),
    ],
)
def test_what_looks_like_a_secret_is_refused_by_name_unless_it_is_ignored_or_wanted(folder, name, text):
    write(folder, {name: text})
    with pytest.raises(CallerError) as raised:
        pack(folder)
    assert (raised.value.what, raised.value.problem.count(name)) == ("code", 1)
    for words in (".gitignore", "a line with !", "tidemill:queues.<queue>.secrets"):
        assert words in raised.value.fix
    write(folder, {".gitignore": f"/{name}\n"})
    assert name not in members(pack(folder))
    write(folder, {".gitignore": f"!/{name}\n"})
    assert name in members(pack(folder))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".env.example", "TOKEN=\n"),
        (".env.ci.template", "TOKEN=\n"),
        ("prod.env", "LOG_LEVEL=1\nTOKENS=5\nPASSWORD=$FROM_VAULT\n"),
        ("README.md", "aws_secret_access_key = YOUR_KEY"),
        ("config.ini", "aws_secret_access_key =\naws_session_token =\n"),
        ("cacert.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n"),
        ("scan.py", 'KEYS = "-----BEGIN PRIVATE KEY-----"'),
        ("test_s3.py", 'KEY = "AKIAIOSFODNN7EXAMPLE"'),
        (".npmrc", "//registry.npmjs.org/:_authToken=${NPM_TOKEN}\n"),
        (".docker/config.json", '{"credsStore": "pass"}'),
        ("environment.py", "import os\n"),
        ("data.bin", "x" * 70_000 + KEY),
    ],
)
def test_what_only_resembles_a_secret_is_packed(folder, name, text):
    write(folder, {name: text})
    assert name in members(pack(folder))


def test_what_a_link_leads_to_is_not_opened(folder):
    """To open a pipe would wait for its writer; it is told as what it is."""
    os.mkfifo(folder / "z")
    (folder / "a").symlink_to("z")
    with pytest.raises(CallerError, match="z is a pipe"):
        pack(folder)


def test_folders_with_logins_are_left_out_and_that_is_said(folder):
    write(folder, {".aws/credentials": "k", ".ssh/id_rsa": "k", "home/.config/gcloud/x.db": "k", ".config/app": "k"})
    packed = pack(folder)
    assert set(members(packed)) == {"features.py", "lib/link.py", "lib/tool.py", "run.sh", ".config/app"}
    assert packed.words().endswith("; left out because they hold logins: .aws, .ssh, home/.config/gcloud.")
    write(folder, {".gitignore": ".aws\n.ssh\nhome\n"})
    assert "logins" not in pack(folder).words()


def test_many_secrets_are_one_error_and_a_lib_is_looked_at_too(folder, tmp_path):
    write(folder, {f"{number}/.env": "" for number in range(8)})
    with pytest.raises(CallerError, match=r"'0/\.env', .*'4/\.env' and 3 more may hold secrets"):
        pack(folder)
    lib = write(tmp_path / "common", {"x.py": "", ".netrc": ""})
    with pytest.raises(CallerError, match=r"^lib: '\.netrc' may hold secrets"):
        pack(write(tmp_path / "other", FILES), [lib])


def test_the_same_content_has_the_same_name_wherever_and_whenever_it_is_packed(folder, tmp_path):
    first = pack(folder).sha256
    copy = tmp_path / "elsewhere"
    shutil.copytree(folder, copy, symlinks=True)
    os.utime(copy / "features.py", (1, 1))
    (copy / "features.py").chmod(0o600)
    other_process = subprocess.run(
        [sys.executable, "-c", f"from tidemill.code import pack; print(pack({str(copy)!r}).sha256)"],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert other_process.stdout.strip() == first
    (copy / "run.sh").chmod(0o644)
    assert pack(copy).sha256 != first


def test_the_packed_file_goes_with_its_object(folder):
    packed = pack(folder)
    path = packed.path
    assert path.is_file()
    packed.close()
    assert not path.parent.exists()


def test_gitignore_is_respected_as_git_does(folder):
    write(
        folder,
        {
            ".gitignore": "*.log\nbuild/\n/only_here.txt\n!keep.log\n",
            "a.log": "",
            "keep.log": "",
            "lib/deep.log": "",
            "lib/.gitignore": "!deep.log\nsecret*\n",
            "lib/secret.txt": "",
            "lib/only_here.txt": "",
            "only_here.txt": "",
            "build/out.py": "",
        },
    )
    packed = pack(folder)
    assert set(members(packed)) == {
        *FILES,
        "lib/link.py",
        ".gitignore",
        "keep.log",
        "lib/.gitignore",
        "lib/deep.log",
        "lib/only_here.txt",
    }
    assert packed.left_out == 4


def test_tidemillignore_decides_over_the_gitignore_beside_it(folder):
    """Data that git keeps need not travel, and built files that git leaves out may have to."""
    write(
        folder,
        {
            ".gitignore": "build/\n*.log\n",
            ".tidemillignore": "/data/\n!build/\n",
            "lib/.tidemillignore": "!keep.log\n",
            "lib/keep.log": "",
            "data/large.bin": "x" * 100,
            "build/out.py": "",
            "a.log": "",
        },
    )
    packed = pack(folder)
    ignored = {"data/large.bin", "a.log"}
    assert not ignored & set(members(packed))
    assert {"build/out.py", "lib/keep.log"} <= set(members(packed))
    assert packed.left_out == 2


def test_tidemillignore_leaves_a_secret_out_and_sends_one_that_is_wanted(folder):
    write(folder, {"a.pem": KEY, "b.pem": KEY, ".tidemillignore": "a.pem\n!b.pem\n"})
    assert {"a.pem", "b.pem"} & set(members(pack(folder))) == {"b.pem"}


def test_the_largest_folder_is_named_before_there_is_too_much(folder, monkeypatch):
    write(folder, {"data/1.bin": "x" * 3000, "data/2.bin": "x" * 3000, "model.bin": "x" * 4000})
    assert "largest" not in pack(folder).words()
    monkeypatch.setattr(code, "NOTED_BYTES", 10_000)
    words = pack(folder).words()
    assert words.endswith("; data/ has 5.9 KiB of it: what programs do not need goes into .tidemillignore."), words
    monkeypatch.setattr(entries, "MAX_BYTES", 9_000)
    with pytest.raises(CallerError, match=r"more than 0 MiB; the largest part is data/ with 5.9 KiB.*\.tidemillignore"):
        pack(folder)


def test_a_repository_s_gitignore_above_the_folder_counts_and_one_outside_the_repository_does_not(tmp_path):
    root = write(
        tmp_path, {".gitignore": "*.py\n", "repo/.gitignore": "*.bin\n", "repo/src/a.py": "", "repo/src/b.bin": ""}
    )
    (root / "repo/.git").mkdir()
    assert set(members(pack(root / "repo/src"))) == {"a.py"}


def test_histories_compiled_files_environments_and_the_local_store_are_left_out(folder):
    before = pack(folder).sha256
    write(
        folder,
        {".git/HEAD": "x", "lib/__pycache__/tool.pyc": "x", ".tidemill/pipeline.json": "{}", "venv/pyvenv.cfg": "x"},
    )
    (folder / "venv/python3").symlink_to("/usr/bin/python3")
    assert pack(folder).sha256 == before


# ---- what is refused --------------------------------------------------------------------------------------------


def a_socket(root):
    os.mknod(root / "control", stat.S_IFSOCK | 0o600)


def a_pipe(root):
    os.mkfifo(root / "control")


def a_large_file(root):
    with (root / "weights.bin").open("wb") as file:
        file.truncate(5 << 30)


def an_absolute_link(root):
    (root / "data").symlink_to(root / "features.py")


def a_link_out(root):
    (root / "data").symlink_to("../../etc")


def a_link_by_way_of_a_link(root):
    (root / "lib/up").symlink_to("..")
    (root / "data").symlink_to("lib/up/../../x")


def many_files(root):
    for n in range(21):
        (root / f"f{n}").touch()


def no_utf8(root):
    with open(os.fsencode(root) + b"/\xff.py", "wb"):
        pass


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (a_socket, ["control is a socket"]),
        (a_pipe, ["control is a pipe"]),
        (a_large_file, ["more than 512 MiB", "weights.bin with 5 GiB", ".tidemillignore"]),
        (an_absolute_link, ["the link data", "by a relative path"]),
        (a_link_out, ["the link data", "leads to ../../etc"]),
        (a_link_by_way_of_a_link, ["the link data", "leads to lib/up/../../x"]),
        (many_files, ["more than 20 files"]),
        (no_utf8, ["is not UTF-8"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_cannot_be_shipped_is_refused_before_anything_is_written(folder, monkeypatch, make, says):
    monkeypatch.setattr(entries, "MAX_FILES", 20)
    make(folder)
    target, backend = pipeline()
    with pytest.raises(CallerError) as refused:
        target.submit(["python3", "features.py", "{uri}"], uris(3), queue="cpu", name="tiles", code=folder)
    assert str(refused.value).startswith("code: ")
    assert "\n" not in str(refused.value)
    for words in says:
        assert words in str(refused.value)
    assert (list(target.store.list("jobs")), backend.arrays) == ([], [])


@pytest.mark.parametrize("make", [a_large_file, many_files])
def test_on_this_machine_code_that_is_too_large_can_stay_where_it_is(folder, tmp_path, monkeypatch, make):
    monkeypatch.setattr(entries, "MAX_FILES", 20)
    make(folder)
    local = Pipeline.local(tmp_path / "store")
    with pytest.raises(CallerError, match=r"On this machine, leave `code` out") as refused:
        local.submit(["python3", "features.py", "{uri}"], ["a"], name="tiles", code=folder)
    assert refused.value.what == "code"
    assert list(local.store.list("jobs")) == []


def test_a_device_is_told_by_its_kind():
    assert [entries._kind(kind) for kind in (stat.S_IFCHR, stat.S_IFBLK)] == ["a device", "a device"]


def test_an_unreadable_file_and_folder_are_named(folder, monkeypatch):
    # The tests may run as root, who may read everything.
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: "tool" not in str(path) and may(path, mode))
    with pytest.raises(CallerError, match=r"lib/tool.py cannot be read: permission denied\."):
        pack(folder)
    monkeypatch.undo()

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(CallerError, match=r"\. cannot be read: Permission denied"):
        pack(folder)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("features.py", "features.py is a file"),
        ("nowhere", "nowhere does not exist"),
        ("", "must be a folder"),
        ("a\0b", "must be a folder"),
        ("empty", "must be a folder with files"),
    ],
)
def test_what_is_no_folder_with_files_is_refused(folder, monkeypatch, name, says):
    monkeypatch.chdir(folder)
    (folder / "empty").mkdir()
    with pytest.raises(CallerError, match=f"^code.*{says}"):
        pack(name)


def test_a_file_that_changes_while_it_is_packed_is_refused_and_nothing_is_left(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(code, "temporary_folder", lambda kind: (tmp_path / kind).mkdir() or tmp_path / kind)
    real = entries._entries

    def then_grow(root, what, named):
        found = real(root, what, named)
        (root / "features.py").write_text("print(1)\n" * 2)
        return found

    monkeypatch.setattr(entries, "_entries", then_grow)
    with pytest.raises(CallerError, match=r"features.py.*changed while"):
        pack(folder)
    assert not (tmp_path / "code").exists()


# ---- how it travels ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "becomes"),
    [
        ("features.py", "{code}/features.py"),
        ("./lib/tool.py", "{code}/lib/tool.py"),
        ("lib", "lib"),
        ("missing.py", "missing.py"),
        ("/etc/passwd", "/etc/passwd"),
        ("../outside.py", "../outside.py"),
        ("-features.py", "-features.py"),
        ("{code}/features.py", "{code}/features.py"),
    ],
)
def test_a_command_s_files_are_found_in_the_code(folder, word, becomes):
    write(folder.parent, {"outside.py": ""})
    assert in_code(["python3", word], folder) == ["python3", becomes]


def test_an_archive_that_unpacks_to_more_than_code_may_have_is_damaged(folder, monkeypatch):
    """One of the store, where others write."""
    packed, store = pack(folder), pipeline()[0].store
    store.upload(packed.path, "code")
    assert code.fetched(store, "code").contents == packed.contents
    for limit in ("MAX_BYTES", "MAX_FILES"):
        with monkeypatch.context() as patched:
            patched.setattr(code, limit, 2)
            with pytest.raises(DamagedError, match="it has more than"):
                code.fetched(store, "code")


def test_a_submit_uploads_the_code_once_and_its_round_names_it(folder):
    target, backend = pipeline()
    said: list[str] = []
    send = {"queue": "cpu", "name": "tiles", "code": folder, "log": said.append}
    job = target.submit(["python3", "features.py", "{uri}"], uris(3), **send)
    sha256 = pack(folder).sha256
    assert job.spec.command == ["python3", "{code}/features.py", "{uri}"]
    assert (job.spec.code, Ledger(target.store, job.id).round(0).code) == (sha256, sha256)
    assert target.store.get(f"jobs/{job.id}/code/{sha256}.tar.zst") == pack(folder).path.read_bytes()
    assert "code: 4 files, 25 B." in said
    assert not any("placeholder" in line for line in said)
    assert target.submit(["python3", "features.py", "{uri}"], uris(3), **send).id == job.id
    assert len(backend.arrays) == 1
    (folder / "features.py").write_text("print(2)\n")
    assert target.submit(["python3", "features.py", "{uri}"], uris(3), **send).id != job.id


def test_a_submit_that_died_before_its_round_is_resumed_with_its_code(folder, monkeypatch):
    target, _ = pipeline()
    with monkeypatch.context() as dying:
        dying.setattr("tidemill.client.sending.submit.write_first_round", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            target.submit(["python3", "features.py", "{uri}"], uris(3), queue="cpu", name="tiles", code=folder)
    job = target.job("tiles")
    job.resume()
    assert Ledger(target.store, job.id).round(0).code == pack(folder).sha256


def test_a_retry_may_bring_other_code_which_later_rounds_keep(folder):
    target, backend = pipeline()
    job = target.submit(["python3", "features.py", "{uri}"], uris(4), queue="cpu", name="tiles", code=folder)
    backend.run(target, job.id, fail_items=[1])
    (folder / "features.py").write_text("print('mended')\n")
    job.retry(code=folder)
    sha256 = pack(folder).sha256
    ledger = Ledger(target.store, job.id)
    assert ledger.round(0).code != ledger.round(1).code == sha256
    assert target.store.exists(f"jobs/{job.id}/code/{sha256}.tar.zst")
    job.cancel()
    job.resume()
    assert ledger.round(2).code == sha256


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"pip_index": "https://pypi.example/simple"}, "pip_index is .* no code with a requirements.txt"),
        ({"wheelhouse": "memory://wheels"}, "wheelhouse is .* a URI such as"),
        ({"pip_index": "pypi.example"}, "pip_index is 'pypi.example'"),
        ({"pip_index": "https://ada:geheim@pypi.example"}, "pip_index holds a login"),
    ],
)
def test_where_packages_come_from_is_checked(folder, values, says):
    target, _ = pipeline()
    with pytest.raises(CallerError, match=f"^{says}") as refused:
        target.submit(["python3", "features.py", "{uri}"], uris(3), queue="cpu", code=folder, **values)
    assert "geheim" not in str(refused.value)
    assert list(target.store.list("jobs")) == []


def test_an_empty_wheelhouse_is_refused(folder, tmp_path):
    write(folder, {"requirements.txt": "x\n"})
    wheels = write(tmp_path / "wheels", {"readme.txt": ""})
    target, _ = pipeline()
    send = {"queue": "cpu", "code": folder, "wheelhouse": f"file://{wheels}"}
    with pytest.raises(CallerError, match=r"^wheelhouse is .*a prefix with packages \(\.whl"):
        target.submit(["python3", "features.py", "{uri}"], uris(3), **send)
    write(wheels, {"x-1-py3-none-any.whl": ""})
    assert target.submit(["python3", "features.py", "{uri}"], uris(3), **send).spec.wheelhouse == send["wheelhouse"]
