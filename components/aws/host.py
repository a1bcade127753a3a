#!/usr/bin/python3
"""Serves the containers of a machine on AWS Batch. User data installs and starts this file; it runs on the machine's
own Python (3.9 on Amazon Linux 2023, whose cloud-init needs it too) with the standard library alone.

    host.py fetch s3://BUCKET/KEY   once, before the ECS agent joins: bring the worker that the object names
    host.py serve                   for as long as the machine lives: bring the workers that containers ask for, and
                                    write Spot's notice and its hint down

The folder FOLDER is mounted read-only into every container. In it are

    tidemill-worker     the launcher: a container starts it with the image that it wants, and it waits for the tree
    <digest>/           the tree of one worker image, whole or not there at all
    fetch.sock          takes a line, the worker's image by digest; answers `ok`, or why not
    machine             what instance metadata says of the machine: id, type, zone, market
    notice              what instance metadata says of an interruption, once it says so
    rebalance           what it says of a higher risk of one, once it says so

A change of this file replaces the machines of every queue, so it knows nothing of a release.
"""

import hashlib
import hmac
import json
import os
import re
import shutil
import socketserver
import sys
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

FOLDER = "/var/lib/tidemill/worker"
ENTRY = "tidemill-worker"
METADATA = "http://169.254.169.254/latest/"
IMAGE = re.compile(r"(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.([a-z.]+)/([a-z0-9._/-]+)@sha256:([0-9a-f]{64})")
MANIFESTS = ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"]
SAID = {"notice": "meta-data/spot/instance-action", "rebalance": "meta-data/events/recommendations/rebalance"}
PATIENCE_SECONDS = 180
POLL_SECONDS = 2
TIMEOUT_SECONDS = 30

one_at_a_time = threading.Lock()


def ask(url, method="GET", headers=None, body=None, proxies=True):
    """The body of an HTTP answer; its error says what the server said."""
    request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
    handlers = [] if proxies else [urllib.request.ProxyHandler({})]
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=TIMEOUT_SECONDS) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        error.msg = error.msg + " " + error.read(500).decode(errors="replace")
        raise


def metadata(path):
    """Instance metadata, version 2."""
    seconds = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = ask(METADATA + "api/token", "PUT", seconds, proxies=False).decode()
    return ask(METADATA + path, headers={"X-aws-ec2-metadata-token": token}, proxies=False).decode()


def call(service, region, domain, path="/", body=None, **headers):
    """Call AWS as the machine's role, signed with version 4.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
    """
    url = (
        os.environ.get("AWS_ENDPOINT_URL") or f"https://{'api.' if service == 'ecr' else ''}{service}.{region}.{domain}"
    )
    method, content = ("GET", b"") if body is None else ("POST", json.dumps(body).encode())
    role = metadata("meta-data/iam/security-credentials/").split()[0]
    key = json.loads(metadata("meta-data/iam/security-credentials/" + role))
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    payload = hashlib.sha256(content).hexdigest()
    signed = {"host": urllib.parse.urlsplit(url).netloc, "x-amz-content-sha256": payload, "x-amz-date": now}
    signed["x-amz-security-token"] = key["Token"]
    names = ";".join(sorted(signed))
    lines = [f"{name}:{signed[name]}" for name in sorted(signed)]
    request = "\n".join([method, path, "", *lines, "", names, payload])
    scope = [now[:8], region, service, "aws4_request"]
    secret = ("AWS4" + key["SecretAccessKey"]).encode()
    hashed = hashlib.sha256(request.encode()).hexdigest()
    for word in [*scope, "\n".join(["AWS4-HMAC-SHA256", now, "/".join(scope), hashed])]:
        secret = hmac.new(secret, word.encode(), hashlib.sha256).digest()
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={key['AccessKeyId']}/{'/'.join(scope)}, SignedHeaders={names}, "
        f"Signature={secret.hex()}"
    )
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(url + path, method, {**headers, **signed, "Authorization": authorization}, content or None)


def ecr(image, operation, **parameters):
    """Call ECR about the repository of an image."""
    account, region, domain, repository, _ = image.groups()
    body = {"registryId": account, "repositoryName": repository, **parameters}
    target = f"AmazonEC2ContainerRegistry_V20150921.{operation}"
    headers = {"X_Amz_Target": target, "Content_Type": "application/x-amz-json-1.1"}
    return json.loads(call("ecr", region, domain, body=body, **headers))


def bring(reference):
    """The folder of the tree of a worker's image, fetched if it is not there yet."""
    image = IMAGE.fullmatch(reference)
    if image is None:
        raise ValueError(f"{reference!r} is not an image of ECR by digest")
    tree = os.path.join(FOLDER, image[5][:16])
    with one_at_a_time:
        if not os.path.exists(os.path.join(tree, ENTRY)):
            shutil.rmtree(tree, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".") as part:
                unpack(image, part)
                os.rename(os.path.join(part, "tidemill"), tree)
    return tree


def unpack(image, folder):
    """Unpack the only layer of an image."""
    identity = {"imageDigest": "sha256:" + image[5]}
    found = ecr(image, "BatchGetImage", imageIds=[identity], acceptedMediaTypes=MANIFESTS)
    if not found["images"]:
        raise ValueError(f"ECR has no such image: {found.get('failures')}")
    (layer,) = json.loads(found["images"][0]["imageManifest"])["layers"]
    url = ecr(image, "GetDownloadUrlForLayer", layerDigest=layer["digest"])["downloadUrl"]
    packed, read = os.path.join(folder, "layer"), hashlib.sha256()
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer, open(packed, "wb") as file:
        while block := answer.read(1 << 20):
            read.update(block)
            file.write(block)
    if "sha256:" + read.hexdigest() != layer["digest"]:
        raise ValueError(f"the layer arrived as sha256:{read.hexdigest()}, not as {layer['digest']}")
    with tarfile.open(packed) as tar:
        tar.extractall(folder)


def fetch(pointer):
    """Bring the worker that an object names, and with it the launcher; over and over for some minutes."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            region, domain = metadata("meta-data/placement/region"), metadata("meta-data/services/domain")
            path = "/" + urllib.parse.quote(pointer[len("s3://") :])
            tree = bring(call("s3", region, domain, path).decode().strip())
            launcher = os.path.join(FOLDER, ENTRY)
            shutil.copy(os.path.join(tree, ENTRY), launcher + ".part")
            return os.rename(launcher + ".part", launcher)
        except (OSError, ValueError, KeyError) as error:
            print(f"tidemill: no worker from {pointer}: {type(error).__name__}: {error}", flush=True)
            if time.monotonic() > end:
                sys.exit(1)
            time.sleep(5)


class Asked(socketserver.StreamRequestHandler):
    """A container that asks for a worker."""

    timeout = 10

    def handle(self):
        """Answer one line with another."""
        try:
            bring(self.rfile.readline(500).decode().strip())
            self.wfile.write(b"ok")
        except Exception as error:
            self.wfile.write(f"{type(error).__name__}: {error}".encode())


class Server(socketserver.ThreadingUnixStreamServer):
    """All containers of a machine may ask at once."""

    daemon_threads = True
    request_queue_size = 256


FACTS = {
    "id": "instance-id",
    "type": "instance-type",
    "zone": "placement/availability-zone",
    "market": "instance-life-cycle",
}


def write(name, text):
    """A file of the folder, which appears as a whole."""
    path = os.path.join(FOLDER, name)
    with open(path + ".part", "w") as file:
        file.write(text)
    os.rename(path + ".part", path)


def describe():
    """Write down what the machine is: containers do not reach instance metadata."""
    try:
        write("machine", json.dumps({key: metadata("meta-data/" + path) for key, path in FACTS.items()}))
    except OSError as error:
        print(f"tidemill: metadata: {error}", flush=True)


def note(name):
    """Write a file of SAID once metadata has it."""
    try:
        write(name, metadata(SAID[name]))
    except urllib.error.HTTPError as error:
        if error.code != 404:
            print(f"tidemill: metadata: {error}", flush=True)
    except OSError as error:
        print(f"tidemill: metadata: {error}", flush=True)


def serve():
    """Describe the machine, answer containers, and write down what metadata says of an interruption."""
    describe()
    address = os.path.join(FOLDER, "fetch.sock")
    for old in (*SAID, "fetch.sock"):
        if os.path.exists(os.path.join(FOLDER, old)):
            os.remove(os.path.join(FOLDER, old))
    server = Server(address, Asked)
    os.chmod(address, 0o666)  # images run as any user
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        for name in SAID:
            note(name)
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    fetch(sys.argv[2]) if sys.argv[1] == "fetch" else serve()
