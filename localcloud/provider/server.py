# ruff: noqa: N802  (the methods are named by the protocol)
"""The provider's side of the engine's protocol (gRPC on loopback), with one thread per call."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from localcloud.processes import LEFT_OUT, serve_plugin

from . import plan, resources
from .convert import RefusedError, has_unknown, nearest
from .table import Kind, UnknownTypeError

KINDS = provider_pb2.PropertyDiff


def to_struct(value: dict[str, Any]) -> struct_pb2.Struct:
    return json_format.ParseDict(value, struct_pb2.Struct())


def from_struct(value: struct_pb2.Struct) -> dict[str, Any]:
    """Convert protobuf's Struct to a dict. Whole numbers become int, since a Struct has only floats."""

    def plain(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: plain(part) for key, part in item.items()}
        if isinstance(item, list):
            return [plain(part) for part in item]
        return int(item) if isinstance(item, float) and item.is_integer() else item

    return plain(json_format.MessageToDict(value))


def _told(method: Callable[..., Any]) -> Callable[..., Any]:
    """Turn errors into the engine's, as one sentence without a traceback."""

    @functools.wraps(method)
    def wrapper(self: Servicer, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return method(self, request, context)
        except resources.HalfMadeError as error:
            context.abort_with_status(_half_made(error))
        except (RefusedError, UnknownTypeError, RuntimeError, *self.provider.errors) as error:
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        except (AttributeError, KeyError, LookupError, TypeError, ValueError) as error:
            # A mistake of localcloud's: the engine shows no place in its code, so the resource must be named.
            about = getattr(request, "urn", "") or getattr(request, "tok", "")
            reason = f"localcloud cannot {method.__name__} {about}: {type(error).__name__}: {error}"
            context.abort(grpc.StatusCode.INTERNAL, reason)

    return wrapper


class _Status(grpc.Status):
    def __init__(self, message: str, details: bytes) -> None:
        self.code, self.details = grpc.StatusCode.UNKNOWN, message
        self.trailing_metadata = (("grpc-status-details-bin", details),)


def _half_made(error: resources.HalfMadeError) -> grpc.Status:
    detail = provider_pb2.ErrorResourceInitFailed(
        id=error.resource_id, properties=to_struct(error.outputs), inputs=to_struct(error.inputs), reasons=[str(error)]
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=str(error))
    status.details.add().Pack(detail)
    return _Status(str(error), status.SerializeToString())


@dataclass(frozen=True)
class Provider:
    """The provider of one cloud.

    Attributes:
        kind: Its table.
        version: Of the SDK whose types the table describes.
        config: The known settings.
        default_tags: The setting of the default tags.
        errors: Exceptions that its clients raise.
        configure: Makes the clients from settings; its ValueError names one that is missing.
        invoke: Answers a function: token, arguments, clients.
        resource: Runs the operations of a type.
    """

    kind: Kind
    version: str
    config: frozenset[str]
    default_tags: str
    errors: tuple[type[Exception], ...]
    configure: Callable[[dict[str, Any]], Any]
    invoke: Callable[[str, dict[str, Any], Any], dict[str, Any]]
    resource: type[resources.ProviderResource] = resources.ProviderResource


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """`ResourceProvider` of provider.proto. Secrets stay with the engine, which marks the returned ones by name."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self._clients: Any = None
        self._default_tags: dict[str, str] = {}

    @property
    def clients(self) -> Any:
        assert self._clients, "the engine configures a provider before it uses it"
        return self._clients

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=self.provider.version)

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def CheckConfig(self, request: Any, context: Any) -> Any:
        failures = [
            provider_pb2.CheckFailure(property=key, reason=f"no such setting{nearest(key, self.provider.config)}")
            for key in from_struct(request.news)
            if key not in self.provider.config
        ]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        old, new = from_struct(request.old_inputs), from_struct(request.news)
        changed = sorted(key for key in {*old, *new} - {"version"} if old.get(key) != new.get(key))
        some = provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(changes=some, diffs=changed)

    def Configure(self, request: Any, context: Any) -> Any:
        settings = from_struct(request.args)
        tags = settings.get(self.provider.default_tags) or {}
        tags = json.loads(tags) if isinstance(tags, str) else tags
        self._default_tags = tags.get("tags") or {} if "tags" in tags else tags
        try:
            self._clients = self.provider.configure(settings)
        except ValueError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    @_told
    def Invoke(self, request: Any, context: Any) -> Any:
        answer = self.provider.invoke(request.tok, from_struct(request.args), self.clients)
        return provider_pb2.InvokeResponse(**{"return": to_struct(answer)})  # type: ignore[arg-type]  (a keyword)

    @_told
    def Check(self, request: Any, context: Any) -> Any:
        old, new = from_struct(request.olds), from_struct(request.news)
        this = self.provider.kind.row(_token(request))
        try:
            name = request.urn.split("::")[3]
            left_out = json.loads(os.environ.get(LEFT_OUT, "{}")).get(name, ())
            inputs = plan.checked(this, name, old, new, request.randomSeed, left_out)
        except RefusedError as error:
            failure = provider_pb2.CheckFailure(property=error.path, reason=error.reason)
            return provider_pb2.CheckResponse(inputs=request.news, failures=[failure])
        if this.taggable:
            own, every = this.kind.tags
            inputs[every] = plan.merged_tags(inputs.get(own), self._default_tags)
        return provider_pb2.CheckResponse(inputs=to_struct(inputs))

    @_told
    def Diff(self, request: Any, context: Any) -> Any:
        this = self.provider.kind.row(_token(request))
        old, new = from_struct(request.old_inputs), from_struct(request.news)
        changes = plan.diff(this, old, new, list(request.ignoreChanges))
        # A resource whose place changed with the provider's settings must be created in the new place.
        state = from_struct(request.olds)
        for key, place in self.clients.placed(this).items():
            if new.get(key) is None and state.get(key) not in (None, place):
                changes[key] = ("update", True)
        detailed = {}
        for path, (kind, replaces) in changes.items():
            value = KINDS.Kind.Value(kind.upper() + ("_REPLACE" if replaces else ""))
            detailed[path] = provider_pb2.PropertyDiff(kind=value, inputDiff=True)
        some = provider_pb2.DiffResponse.DIFF_SOME if changes else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(
            changes=some,
            replaces=[path for path, (_, replaces) in changes.items() if replaces],
            diffs=sorted({path.split(".")[0].split("[")[0] for path in changes}),
            detailedDiff=detailed,
            hasDetailedDiff=True,
        )

    @_told
    def Create(self, request: Any, context: Any) -> Any:
        inputs = from_struct(request.properties)
        resource = self._resource(request, inputs)
        if request.preview:
            return provider_pb2.CreateResponse(properties=to_struct(resource.preview(inputs)))
        resource_id, outputs = resource.create(inputs, request.timeout)
        return provider_pb2.CreateResponse(id=resource_id, properties=to_struct(outputs))

    @_told
    def Update(self, request: Any, context: Any) -> Any:
        old, state, inputs = (from_struct(part) for part in (request.old_inputs, request.olds, request.news))
        resource = self._resource(request, inputs)
        if request.preview:
            return provider_pb2.UpdateResponse(properties=to_struct(resource.preview_update(old, state, inputs)))
        outputs = resource.update(request.id, old, state, inputs, request.timeout)
        return provider_pb2.UpdateResponse(properties=to_struct(outputs))

    @_told
    def Read(self, request: Any, context: Any) -> Any:
        state, inputs = from_struct(request.properties), from_struct(request.inputs)
        found = self._resource(request, inputs).read(request.id, state, inputs, self._default_tags)
        if found is None:
            return provider_pb2.ReadResponse()
        outputs, inputs = found
        return provider_pb2.ReadResponse(id=request.id, properties=to_struct(outputs), inputs=to_struct(inputs))

    @_told
    def Delete(self, request: Any, context: Any) -> Any:
        state = from_struct(request.properties)
        self._resource(request, state).delete(request.id, state, request.timeout)
        return empty_pb2.Empty()

    def _resource(self, request: Any, inputs: dict[str, Any]) -> resources.ProviderResource:
        region = inputs.get("region")
        this = self.provider.kind.row(_token(request))
        return self.provider.resource(this, self.clients, None if has_unknown(region) else region)


def _token(request: Any) -> str:
    return request.urn.split("::")[2].split("$")[-1]


def serve(provider: Provider) -> None:
    """Serve until the engine ends this process or itself ends. The first line on stdout is the port."""
    options = [("grpc.max_receive_message_length", 400 << 20), ("grpc.max_send_message_length", 400 << 20)]
    server = grpc.server(ThreadPoolExecutor(max_workers=32), options=options)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Servicer(provider), server)
    serve_plugin(server)
    sys.exit(0)
