"""AWS Lambda: functions of images, each of which runs as a process. moto answers what is not about running.

An image that was never pushed represents this machine's own root, as it does for Batch.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from botocore.exceptions import ClientError
from moto.awslambda.exceptions import UnknownFunctionException
from moto.awslambda.models import LambdaFunction, lambda_backends
from moto.ecr.models import ecr_backends

from localcloud.aws import accounts
from localcloud.aws.accounts import ACCOUNT, RoleRefusedError, role_credentials, service_client
from localcloud.aws.authorize import may
from localcloud.aws.errors import AwsError
from localcloud.aws.functions.process import FunctionProcess, Invocation
from localcloud.aws.iam import DIRECT, Query, refusal
from localcloud.aws.wsgi import Environ, StartResponse, respond
from localcloud.machines import disk
from localcloud.machines.images import PullError, Registry

SERVICE = "lambda.amazonaws.com"
LONGEST_SECONDS = 300.0
"""The wall-clock limit of an invocation here, even if the function's own is longer."""
ATTEMPTS = 3
"""How often an asynchronous event is tried. The pauses, a minute and two, are left out.
https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html"""
_FUNCTIONS = re.compile(r"/2015-03-31/functions(?:/([^/]+)(?:/(\w[\w-]*))?)?/?")
_IMAGE = re.compile(rf"{ACCOUNT}\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com/([^@:]+)")


class LambdaFunctions:
    """The Lambda service.

    Args:
        registry: Images that were pushed.
        url: The gateway's URL.
        folder: Folder for the functions' output.
    """

    def __init__(self, registry: Registry, url: str, folder: Path) -> None:
        self._registry, self._url, self._folder = registry, url, folder
        self._lock = threading.Lock()
        self._processes: dict[str, tuple[str, FunctionProcess]] = {}
        self._spawner = ThreadPoolExecutor(1, "lambda-spawn")
        self._pool = ThreadPoolExecutor(8, "lambda")

    def __call__(self, environ: Environ, start_response: StartResponse) -> Any:
        found = _FUNCTIONS.fullmatch(environ["PATH_INFO"])
        name, part = (unquote(found[1] or ""), found[2]) if found else ("", None)
        method, region = environ["REQUEST_METHOD"], environ["localcloud.region"]
        if part == "invocations":
            return self._invoke(environ, start_response, name, region)
        if (method == "POST" and not name) or part in ("code", "configuration"):
            _check(json.loads(environ["localcloud.body"] or b"{}"), name, region)
        answer = accounts.moto(environ, start_response)
        if found and method == "DELETE" and part is None:
            self._close(name)
        return answer

    def _invoke(self, environ: Environ, start_response: StartResponse, name: str, region: str) -> Any:
        """https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html"""
        payload, kind = environ["localcloud.body"] or b"{}", environ.get("HTTP_X_AMZ_INVOCATION_TYPE")
        function = find(name, region)
        if kind == "Event":
            self.send(function, payload)
            return respond(start_response, 202, b"", "application/json")
        done = self.run(function, payload)
        headers = {"X_Amz_Function_Error": "Unhandled"} if done.failed else {}
        return respond(start_response, 200, done.answer, "application/json", **headers)

    def send(self, function: LambdaFunction, payload: bytes) -> None:
        """Invoke a function without waiting; an event that fails is tried again."""

        def attempts() -> None:
            for _ in range(ATTEMPTS):
                if not self.run(function, payload).failed:
                    return

        self._pool.submit(attempts)

    def run(self, function: LambdaFunction, payload: bytes) -> Invocation:
        """Invoke a function and wait for its answer."""
        try:
            process = self._process(function)
        except (RoleRefusedError, PullError) as error:
            return Invocation(payload, answer=json.dumps({"errorMessage": str(error)}).encode(), failed=True)
        done = process.call(payload, min(float(function.timeout), LONGEST_SECONDS))
        _keep_lines(function, process.lines())
        return done

    def _process(self, function: LambdaFunction) -> FunctionProcess:
        """The process of a function as it is configured now."""
        config = function.get_configuration()
        wanted = json.dumps([function.code["ImageUri"], config["ImageConfigResponse"], config.get("Environment")])
        wanted += function.role
        with self._lock:
            kept, process = self._processes.get(function.function_name, ("", None))
            if process is not None and kept == wanted and process.running:
                return process
            if process is not None:
                process.close()
            self._folder.mkdir(parents=True, exist_ok=True)
            made = FunctionProcess(
                self._command(function),
                self._environment(function),
                self._folder / f"{function.function_name}.log",
                lambda *given, **named: self._spawner.submit(*given, **named).result(),
            )
            self._processes[function.function_name] = (wanted, made)
            return made

    def _command(self, function: LambdaFunction) -> list[str]:
        image, given = self._registry.find(function.code["ImageUri"]), function.image_config
        config = image.config if image else {}
        entry = given.entry_point or config.get("Entrypoint") or []
        program, *words = [*entry, *(given.cmd or config.get("Cmd") or [])]
        return [f"{image.root if image else ''}{program}", *words]

    def _environment(self, function: LambdaFunction) -> dict[str, str]:
        """https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html#configuration-envvars-runtime"""
        login = role_credentials(function.role, function.function_name, SERVICE)
        return {
            "PATH": disk.PATH,
            "AWS_REGION": function.region,
            "AWS_DEFAULT_REGION": function.region,
            "AWS_LAMBDA_FUNCTION_NAME": function.function_name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
            "AWS_ACCESS_KEY_ID": login["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": login["SecretAccessKey"],
            "AWS_SESSION_TOKEN": login["Token"],
            "AWS_ENDPOINT_URL": self._url,
            "AWS_ALLOW_HTTP": "true",
            **function.environment_vars,
        }

    def _close(self, name: str) -> None:
        with self._lock:
            _, process = self._processes.pop(name.rpartition(":")[2], ("", None))
        if process:
            process.close()

    def stop(self) -> None:
        """End every process."""
        for name in list(self._processes):
            self._close(name)
        for pool in (self._pool, self._spawner):
            pool.shutdown(wait=False, cancel_futures=True)


def find(name: str, region: str) -> LambdaFunction:
    """A function by its name or ARN.

    Raises:
        AwsError: There is none.
    """
    try:
        with accounts.moto.lock:
            return lambda_backends[ACCOUNT][region].get_function(name)
    except UnknownFunctionException:
        raise AwsError("ResourceNotFoundException", f"Function not found: {name}", 404) from None


def _check(spec: Mapping[str, Any], name: str, region: str) -> None:
    """Refuse a role that Lambda may not assume and an image that it may not pull, of those that a call names.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/images-create.html#gettingstarted-images-permissions
    """
    role = accounts.find_role(spec["Role"]) if "Role" in spec else None
    if "Role" in spec and (role is None or accounts.trust_refusal(role, SERVICE)):
        raise AwsError(
            "InvalidParameterValueException", "The role defined for the function cannot be assumed by Lambda.", 400
        )
    reference = spec.get("Code", spec).get("ImageUri")
    if reference is None:
        return
    image = _IMAGE.match(reference)
    if image is None or image[1] != region:
        raise AwsError("InvalidParameterValueException", "Source image is not valid: not in ECR of this region", 400)
    function = f"arn:aws:lambda:{region}:{ACCOUNT}:function:{spec.get('FunctionName') or name}"
    repository = ecr_backends[ACCOUNT][region].repositories.get(image[2])
    document = json.loads((repository and repository.policy) or '{"Statement": []}')
    # Such a policy is about its repository and names no resource.
    document["Statement"] = [{**each, "Resource": "*"} for each in document["Statement"]]
    for action in ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"):
        query = Query(action, "*", {f"Service:{SERVICE}": DIRECT}, {"aws:sourcearn": function})
        if refusal(query, [], document, resource_decides=True):
            sentence = "Lambda does not have permission to access the ECR image. Check the ECR permissions."
            raise AwsError("AccessDeniedException", sentence)


def _keep_lines(function: LambdaFunction, lines: list[str]) -> None:
    """Write what a function printed to its log group, if its role may."""
    if not lines:
        return
    group = function.get_configuration()["LoggingConfig"]["LogGroup"]
    today = datetime.now(UTC).strftime("%Y/%m/%d")
    stream = f"{today}/{function.function_name}[$LATEST]{uuid.uuid4().hex}"
    arn = f"arn:aws:logs:{function.region}:{ACCOUNT}:log-group:{group}:log-stream:{stream}"
    actions = ("logs:CreateLogStream", "logs:PutLogEvents")
    if not all(may(function.role, action, arn, function.region) for action in actions):
        return
    logs, now = service_client("logs", function.region), int(time.time() * 1000)
    try:
        logs.create_log_stream(logGroupName=group, logStreamName=stream)
        events = [{"timestamp": now, "message": line} for line in lines]
        logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)
    except ClientError:
        return  # Lambda runs on without its log group
