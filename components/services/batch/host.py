#!/usr/bin/python3
"""Serves the containers of a machine on AWS Batch. User data installs this file, without its docstrings, as a service:
on the machine's own Python (3.9 on Amazon Linux 2023, whose cloud-init needs it too), with the standard library alone,
and as a user without rights who owns the folder FOLDER and nothing else.

    host.py fetch s3://BUCKET/KEY     before the ECS agent joins: bring the worker that the object names
    host.py serve [s3://BUCKET/KEY]   for as long as the machine lives: bring the workers that containers ask for, and
                                      write Spot's notice and its hint down

FOLDER is mounted read-only into every container. In it are

    tidemill-worker     the launcher: a container starts it with the image that it wants, and it waits for the tree
    <digest>/           the tree of one worker image, whole or not there at all
    fetch.sock          takes a line, the worker's image by digest; answers `ok`, or why not
    machine             what instance metadata says of the machine: id, type, zone, market
    notice              what instance metadata says of an interruption, once it says so
    rebalance           what it says of a higher risk of one, once it says so

A container is a stranger. Of its line only the digest counts: the object, which only the stack writes, names the
repository. A change of this file replaces the machines of every queue, so it knows nothing of a release.
"""

import contextlib
import hashlib
import hmac
import json
import os
import posixpath
import re
import shutil
import socket
import socketserver
import struct
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
IMAGE = re.compile(r"(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.([a-z.]+)/([a-z0-9._/-]+)@sha256:([0-9a-f]{64})", re.ASCII)
MANIFESTS = ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"]
SAID = {"notice": "meta-data/spot/instance-action", "rebalance": "meta-data/events/recommendations/rebalance"}
PATIENCE_SECONDS = 180
POLL_SECONDS = 2
TIMEOUT_SECONDS = 30
LINE = 500
LARGEST = 1 << 30
"""Bytes of a tree, packed or not."""
MOST_FILES = 50000
ASKS = 2
"""Connections that one container may hold at a time."""

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


def named(pointer):
    """The image that the pointer names, in a registry of this machine's partition of AWS."""
    region, domain = metadata("meta-data/placement/region"), metadata("meta-data/services/domain")
    text = call("s3", region, domain, "/" + urllib.parse.quote(pointer[len("s3://") :])).decode().strip()
    image = IMAGE.fullmatch(text)
    if image is None or image[3] != domain:
        raise ValueError(f"{pointer} holds {text[:LINE]!r}, which is not an image of ECR by digest")
    return image


def chosen(line, pointer):
    """The image that a container asks for: any of the repository that the pointer names."""
    asked = IMAGE.fullmatch(line)
    if asked is None:
        raise ValueError(f"{line!r} is not an image of ECR by digest")
    if not pointer:
        raise ValueError("no object names a worker for this machine")
    if asked.groups()[:4] != named(pointer).groups()[:4]:
        raise ValueError(f"{line!r} is not in the repository that {pointer} names")
    return asked


def bring(image):
    """The folder of the tree of a worker's image, fetched if it is not there yet."""
    tree = os.path.join(FOLDER, image[5][:16])
    with one_at_a_time:
        if not os.path.exists(os.path.join(tree, ENTRY)):
            shutil.rmtree(tree, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".") as part:
                download(image, os.path.join(part, "layer"))
                unpack(os.path.join(part, "layer"), part)
                os.rename(os.path.join(part, "tidemill"), tree)
    return tree


def verify(what, hashed, digest):
    """Refuse bytes that are not those of a digest."""
    if "sha256:" + hashed.hexdigest() != digest:
        raise ValueError(f"the {what} arrived as sha256:{hashed.hexdigest()}, not as {digest}")


def download(image, path):
    """The only layer of an image, as a file. The image's digest vouches for the manifest, and that for the layer."""
    digest = "sha256:" + image[5]
    found = ecr(image, "BatchGetImage", imageIds=[{"imageDigest": digest}], acceptedMediaTypes=MANIFESTS)
    if not found["images"]:
        raise ValueError(f"ECR has no such image: {found.get('failures')}")
    manifest = found["images"][0]["imageManifest"]
    verify("manifest", hashlib.sha256(manifest.encode()), digest)
    (layer,) = json.loads(manifest)["layers"]
    url = ecr(image, "GetDownloadUrlForLayer", layerDigest=layer["digest"])["downloadUrl"]
    read, size = hashlib.sha256(), 0
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer, open(path, "wb") as file:
        while block := answer.read(1 << 20):
            size += len(block)
            if size > LARGEST:
                raise ValueError(f"the layer has more than {LARGEST} bytes")
            read.update(block)
            file.write(block)
    verify("layer", read, layer["digest"])


def unpack(layer, folder):
    """Unpack plain files, folders, and links that stay inside; all of them below `tidemill`, each of them once."""
    folders, names, size = {""}, set(), 0
    with tarfile.open(layer) as tar:
        for entry in tar:
            name, parent = entry.name.rstrip("/"), posixpath.dirname(entry.name.rstrip("/"))
            target, size = posixpath.normpath(posixpath.join(parent, entry.linkname)), size + entry.size
            # It goes up only at its beginning, from a real folder, so no other link can lead it out.
            rest = re.sub(r"^(\.\.?(/|$))*", "", entry.linkname).split("/")
            inside = (target + "/").startswith("tidemill/") and ".." not in rest
            kind = entry.isreg() or entry.isdir() or (entry.issym() and inside)
            if not kind or name.split("/")[0] != "tidemill" or {".", "..", ""} & set(name.split("/")):
                raise ValueError(f"the layer holds {entry.name!r}, which is no file, folder or inner link of a worker")
            # Its folder is one that this loop has made, so it is no link.
            if parent not in folders or name in names:
                raise ValueError(f"the layer holds {entry.name!r} twice, or without its folder")
            if size > LARGEST or len(names) >= MOST_FILES:
                raise ValueError(f"the layer holds more than {LARGEST} bytes or {MOST_FILES} files")
            names.add(name)
            path = os.path.join(folder, name)
            if entry.isdir():
                folders.add(name)
                os.mkdir(path, 0o755)
            elif entry.issym():
                os.symlink(entry.linkname, path)
            else:
                source = tar.extractfile(entry)
                assert source
                with open(path, "xb") as file:
                    shutil.copyfileobj(source, file)
                os.chmod(path, 0o755 if entry.mode & 0o100 else 0o644)


def fetch(pointer):
    """Bring the worker that an object names, and with it the launcher; over and over for some minutes."""
    launcher = os.path.join(FOLDER, ENTRY)
    if os.path.exists(launcher):  # the service has started again
        return None
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            tree = bring(named(pointer))
            shutil.copy(os.path.join(tree, ENTRY), launcher + ".part")
            return os.rename(launcher + ".part", launcher)
        except Exception as error:
            print(f"tidemill: no worker from {pointer}: {type(error).__name__}: {error}", flush=True)
            if time.monotonic() > end:
                sys.exit(1)
            time.sleep(5)


class Asked(socketserver.BaseRequestHandler):
    """A container that asks for a worker."""

    pointer = ""

    def handle(self):
        """Answer one line, which arrives in one piece, with another."""
        try:
            self.request.settimeout(10)
            line = self.request.recv(LINE).decode("ascii")
            if not line.endswith("\n"):
                raise ValueError(f"a line has at most {LINE} characters and arrives whole")
            bring(chosen(line.strip(), self.pointer))
            said = "ok"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        with contextlib.suppress(OSError):  # it may have left
            self.request.sendall(said.encode()[:LINE])


def container_of(connection):
    """The control group of the process that connected, which tells containers apart; "" if it cannot be seen."""
    pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    if not pid:
        return ""
    with open(f"/proc/{pid}/cgroup") as file:
        return file.read()


class Server(socketserver.ThreadingUnixStreamServer):
    """All containers of a machine may ask at once, but none of them over and over at once."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, *args):
        self.asking, self.lock = {}, threading.Lock()
        super().__init__(*args)

    def verify_request(self, request, client_address):
        """True if the container holds few connections; a connection that is refused closes at once."""
        try:
            container = container_of(request)
        except OSError:
            return False
        with self.lock:
            held = {each for each, whose in self.asking.items() if whose == container}
            if len(held) < ASKS:
                self.asking[request] = container
            return len(held) < ASKS

    def shutdown_request(self, request):
        """Forget a connection that ends."""
        with self.lock:
            self.asking.pop(request, None)
        super().shutdown_request(request)


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


def serve(pointer=""):
    """Describe the machine, answer containers, and write down what metadata says of an interruption."""
    describe()
    address = os.path.join(FOLDER, "fetch.sock")
    for old in (*SAID, "fetch.sock"):
        if os.path.exists(os.path.join(FOLDER, old)):
            os.remove(os.path.join(FOLDER, old))
    Asked.pointer = pointer
    server = Server(address, Asked)
    os.chmod(address, 0o666)  # images run as any user
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        for name in SAID:
            note(name)
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    {"fetch": fetch, "serve": serve}[sys.argv[1]](*sys.argv[2:])
