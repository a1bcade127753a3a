"""What stands between the engine and pulumi-policy: it hears the stack's config, and lets a waiver speak.

pulumi-policy 1.21 keeps only the tags of the engine's ``ConfigureStack``, and a policy cannot report one violation at
a level of its own. Both are a matter of the engine's published protocol, so the servicer's answers are completed here;
nothing private of the library is touched.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from . import settings, waivers


def install() -> None:
    """Stand before every analyzer that is served from now on."""
    register = analyzer_pb2_grpc.add_AnalyzerServicer_to_server

    @wraps(register)
    def listening(servicer: Any, server: Any) -> None:
        servicer.ConfigureStack = _hearing(servicer.ConfigureStack)
        servicer.Analyze = _waiving(servicer.Analyze)
        servicer.AnalyzeStack = _waiving(servicer.AnalyzeStack)
        register(servicer, server)

    analyzer_pb2_grpc.add_AnalyzerServicer_to_server = listening


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
        for found in answer.diagnostics if given else []:
            # What is said of a single resource is said by its own URN.
            urn = found.urn or getattr(request, "urn", "")
            waiver = waivers.covering(given, found.policyName, urn, waivers.today())
            if waiver:
                found.enforcementLevel = analyzer_pb2.ADVISORY
                found.message = f"{found.message}\nWaived until {waiver.until}: {waiver.reason}"
        return answer

    return waive
