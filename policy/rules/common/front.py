"""A layer between the engine and pulumi-policy: it reads the stack's config and applies waivers.

pulumi-policy 1.21 keeps only the tags of the engine's ``ConfigureStack``, cannot report one violation of a policy at a
different level, and accepts wrong names in the pack's config. All three are part of the engine's published protocol,
so this layer completes the servicer's answers; it touches nothing private of the library.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from typing import Any

import grpc
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc
from pulumi_policy import Policy

from . import settings, waivers


def install(policies: Sequence[Policy]) -> None:
    """Wrap every analyzer that is served from now on."""
    names = {policy.name: [*policy.config_schema.properties] if policy.config_schema else [] for policy in policies}
    register = analyzer_pb2_grpc.add_AnalyzerServicer_to_server

    @wraps(register)
    def listening(servicer: Any, server: Any) -> None:
        servicer.Configure = _checking(servicer.Configure, names)
        servicer.ConfigureStack = _hearing(servicer.ConfigureStack)
        servicer.Analyze = _waiving(servicer.Analyze)
        servicer.AnalyzeStack = _waiving(servicer.AnalyzeStack)
        register(servicer, server)

    analyzer_pb2_grpc.add_AnalyzerServicer_to_server = listening


def _checking(configure: Callable[[Any, Any], Any], names: Mapping[str, Sequence[str]]) -> Callable[[Any, Any], Any]:
    def check(request: Any, context: Any) -> Any:
        for rule, given in request.policyConfig.items():
            if rule not in names:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"There is no rule {rule}.{_nearest(rule, names)}")
            for name in given.properties:
                if name not in names[rule]:
                    allowed = ", ".join(names[rule]) or "none"
                    message = f"{rule} has no parameter {name}. Allowed: {allowed}.{_nearest(name, names[rule])}"
                    context.abort(grpc.StatusCode.INVALID_ARGUMENT, message)
        return configure(request, context)

    return check


def _nearest(word: str, names: Mapping[str, Any] | Sequence[str]) -> str:
    return "".join(f" Did you mean {match}?" for match in get_close_matches(word, names, n=1, cutoff=0.5))


def _hearing(configure: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def hear(request: Any, context: Any) -> Any:
        settings.use(settings.Settings(dict(request.config), request.config_secret_keys))
        waivers.used.clear()
        return configure(request, context)

    return hear


def _waiving(analyze: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def waive(request: Any, context: Any) -> Any:
        answer = analyze(request, context)
        given = waivers.read(settings.settings())[0] if answer.diagnostics else []
        for diagnostic in answer.diagnostics if given else []:
            # Findings about a single resource carry its URN.
            urn = diagnostic.urn or getattr(request, "urn", "")
            waiver = waivers.covering(given, diagnostic.policyName, urn, waivers.today())
            if waiver:
                diagnostic.enforcementLevel = analyzer_pb2.ADVISORY
                diagnostic.message = f"{diagnostic.message}\nWaived until {waiver.until}: {waiver.reason}"
        return answer

    return waive
