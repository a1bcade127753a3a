"""A person's own logins, as they really lie on a disk, against stand-ins on this machine: a profile, single sign-on,
workload identity. What this cannot prove: that AWS or Google give a token for them.

Each client is a process of its own with a home of its own, so that nothing of the person who runs the tests is read.
"""

import hashlib
import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from pytest_socket import enable_socket

from tests.unit.client_fakes import descriptor

SSO_SESSION = """
[profile ada]
sso_session = work
sso_account_id = 123456789012
sso_role_name = Submitter
[sso-session work]
sso_start_url = https://work.invalid/start
sso_region = us-west-2
"""
SSO_OLD = """
[profile ada]
sso_start_url = https://work.invalid/start
sso_region = us-west-2
sso_account_id = 123456789012
sso_role_name = Submitter
"""
LOAD = "from tidemill import Pipeline; print(Pipeline.load('s3://bucket/pipeline.json').descriptor.team)"
VERB = "import sys; from tidemill.cli import main; sys.exit(main(['{}', '--pipeline', 's3://bucket/pipeline.json']))"
AUDIENCE = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/ci/providers/ci"
TOKEN = (
    "from tidemill.store import Store; "
    "print(Store.open('gs://bucket', user_login=True)._backend.credential_provider()['token'])"
)


class Server(ThreadingHTTPServer):
    """Remembers what it was asked."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), StandIn)
        self.calls, self.bodies = [], []


class StandIn(BaseHTTPRequestHandler):
    """An S3 that holds a descriptor, an SSO portal, and a security token service."""

    server: Server  # type: ignore[assignment]

    def do_GET(self):
        path = urlsplit(self.path)
        if path.path == "/bucket/pipeline.json":
            self.answer(descriptor("s3://bucket").model_dump_json().encode(), ETag='"1"')
        elif path.path == "/bucket/item":
            self.answer(b"content", ETag='"1"')
        elif path.path == "/federation/credentials":
            expires = int((datetime.now(UTC) + timedelta(hours=1)).timestamp() * 1000)
            keys = {"accessKeyId": "ASIASSO", "secretAccessKey": "key", "sessionToken": "t", "expiration": expires}
            self.answer(json.dumps({"roleCredentials": keys}).encode())
        else:
            self.answer(b"", 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.bodies.append(parse_qs(body))
        self.answer(json.dumps({"access_token": "token-of-sts", "expires_in": 3600, "token_type": "Bearer"}).encode())

    def answer(self, body, status=200, **headers):
        self.server.calls.append((self.path, dict(self.headers)))
        self.send_response(status)
        headers |= {"Content-Length": str(len(body)), "Last-Modified": "Sat, 21 Nov 2026 09:00:00 GMT"}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code="-", size="-"):
        pass


@pytest.fixture
def cloud():
    enable_socket()
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def url(cloud):
    return f"http://127.0.0.1:{cloud.server_port}"


def client(code, cloud, home, **variables):
    """Run a client with a home and an environment of its own; returns how it ended."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "AWS_ENDPOINT_URL": url(cloud),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_REGION": "us-west-2",
        **variables,
    }
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def run_here(cloud, home, uri, *arguments, **variables):
    """`tidemill run` on an item of the cloud, in the person's home."""
    arguments = ["run", "--store", str(home / "store"), *arguments, uri, "--", "cat", "{input}"]
    code = f"import os, sys; os.chdir({str(home)!r}); from tidemill.cli import main; sys.exit(main({arguments!r}))"
    return client(code, cloud, home, TIDEMILL_SCRATCH=str(home / "scratch"), **variables)


def settings(home, config, credentials=""):
    folder = home / ".aws"
    (folder / "sso" / "cache").mkdir(parents=True)
    (folder / "config").write_text(config)
    (folder / "credentials").write_text(credentials)
    return folder / "sso" / "cache"


def sso_login(cache, key, expires):
    """What `aws sso login` leaves behind."""
    token = {
        "startUrl": "https://work.invalid/start",
        "region": "us-west-2",
        "accessToken": "token-of-the-portal",
        "expiresAt": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    (cache / f"{hashlib.sha1(key.encode()).hexdigest()}.json").write_text(json.dumps(token))


def signer(cloud):
    """The access key with which the descriptor was asked for."""
    headers = next(headers for path, headers in cloud.calls if path.startswith("/bucket/"))
    return {k.lower(): v for k, v in headers.items()}["authorization"].partition("Credential=")[2].partition("/")[0]


def test_a_profile_of_the_credentials_file(cloud, tmp_path):
    settings(tmp_path, "[profile ada]\n", "[ada]\naws_access_key_id = AKIAADA\naws_secret_access_key = key\n")
    done = client(LOAD, cloud, tmp_path, AWS_PROFILE="ada")
    assert (done.stdout, done.stderr) == ("vision\n", "")
    assert signer(cloud) == "AKIAADA"


def test_keys_of_the_environment_come_before_a_profile_and_need_no_boto3(cloud, tmp_path):
    settings(tmp_path, "[profile ada]\n", "[ada]\naws_access_key_id = AKIAADA\naws_secret_access_key = key\n")
    code = (
        "import sys; from tidemill.store import Store; "
        "print(len(Store.open('s3://bucket', user_login=True).get('item')), 'boto3' in sys.modules)"
    )
    keys = {"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "key", "AWS_SESSION_TOKEN": "t"}
    done = client(code, cloud, tmp_path, AWS_PROFILE="ada", **keys)
    assert (done.stdout, done.stderr) == ("7 False\n", "")
    assert signer(cloud) == "AKIAENV"


@pytest.mark.parametrize(("config", "key"), [(SSO_SESSION, "work"), (SSO_OLD, "https://work.invalid/start")])
def test_single_sign_on(cloud, tmp_path, config, key):
    sso_login(settings(tmp_path, config), key, datetime.now(UTC) + timedelta(hours=1))
    done = client(LOAD, cloud, tmp_path, AWS_PROFILE="ada")
    assert (done.stdout, done.stderr) == ("vision\n", "")
    assert signer(cloud) == "ASIASSO"
    path, headers = next((p, h) for p, h in cloud.calls if p.startswith("/federation/"))
    assert parse_qs(urlsplit(path).query) == {"role_name": ["Submitter"], "account_id": ["123456789012"]}
    assert {k.lower(): v for k, v in headers.items()}["x-amz-sso_bearer_token"] == "token-of-the-portal"


def test_a_local_run_reads_items_by_single_sign_on(cloud, tmp_path):
    sso_login(settings(tmp_path, SSO_SESSION), "work", datetime.now(UTC) + timedelta(hours=1))
    done = run_here(cloud, tmp_path, "s3://bucket/item", AWS_PROFILE="ada")
    assert done.returncode == 0, done.stdout + done.stderr
    assert signer(cloud) == "ASIASSO"


@pytest.mark.parametrize("logged_in", [False, True], ids=["never", "expired"])
def test_single_sign_on_that_is_over_says_how_to_log_in(cloud, tmp_path, logged_in):
    cache = settings(tmp_path, SSO_OLD)
    if logged_in:
        sso_login(cache, "https://work.invalid/start", datetime.now(UTC) - timedelta(hours=1))
    queues = client(VERB.format("queues"), cloud, tmp_path, AWS_PROFILE="ada")
    assert queues.returncode == 3
    assert "Log in" in queues.stderr
    assert queues.stderr.count("\n") == 1
    doctor = client(VERB.format("doctor"), cloud, tmp_path, AWS_PROFILE="ada")
    assert doctor.returncode == 3
    assert "type: aws sso login --profile ada\n" in doctor.stdout


def test_no_google_login_is_told_with_what_to_type(cloud, tmp_path):
    code = VERB.format("queues").replace("s3://", "gs://")
    done = client(code, cloud, tmp_path, NO_GCE_CHECK="true", CLOUDSDK_CONFIG=str(tmp_path))
    assert done.returncode == 3
    assert "Log in: gcloud auth application-default login." in done.stderr
    assert done.stderr.count("\n") == 1


def identity_file(cloud, tmp_path):
    """What a CI's `external_account` file holds: a token of the CI is exchanged for one of Google's."""
    (tmp_path / "oidc").write_text("token-of-the-ci")
    file = tmp_path / "identity.json"
    file.write_text(
        json.dumps(
            {
                "type": "external_account",
                "audience": AUDIENCE,
                "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
                "token_url": f"{url(cloud)}/v1/token",
                "credential_source": {"file": str(tmp_path / "oidc")},
            }
        )
    )
    return {"GOOGLE_APPLICATION_CREDENTIALS": str(file), "GOOGLE_CLOUD_PROJECT": "p"}


def test_a_workload_identity_file(cloud, tmp_path):
    done = client(TOKEN, cloud, tmp_path, **identity_file(cloud, tmp_path))
    assert done.stdout == "token-of-sts\n", done.stderr
    assert cloud.bodies[0]["subject_token"] == ["token-of-the-ci"]
    assert cloud.bodies[0]["audience"] == [AUDIENCE]


def test_a_local_run_reads_items_by_a_google_login(cloud, tmp_path):
    """Not proved for a person's own login: google-auth asks no other address than Google's for its token."""
    done = run_here(cloud, tmp_path, "gs://bucket/item", GOOGLE_BASE_URL=url(cloud), **identity_file(cloud, tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    [headers] = [headers for path, headers in cloud.calls if path.startswith("/bucket/")]
    assert {k.lower(): v for k, v in headers.items()}["authorization"] == "Bearer token-of-sts"
