"""The front of the pack on the protocol's own messages. tests/engine shows the engine's side of it."""

import datetime
from types import SimpleNamespace

import pytest
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from policy.judging import as_settings
from policy.rules import POLICIES
from policy.rules.common import front, settings, waivers

RULE = "aws-cloudwatch-log-group-retention"
WAIVER = {"rule": RULE, "reason": "Moves to the shared account", "until": "2027-01-31"}
GROUP = "urn:pulumi:test::tidemill::aws:cloudwatch/logGroup:LogGroup::lines"
OTHER = "urn:pulumi:test::tidemill::aws:cloudwatch/logGroup:LogGroup::others"


@pytest.fixture(autouse=True)
def _today(monkeypatch):
    monkeypatch.setattr(waivers, "today", lambda: datetime.date(2026, 11, 21))


@pytest.fixture
def served(monkeypatch):
    """A servicer behind the front, whose answers are made up; the engine's run is in tests/engine."""
    monkeypatch.setattr(analyzer_pb2_grpc, "add_AnalyzerServicer_to_server", lambda servicer, server: None)
    monkeypatch.setattr(settings, "_current", settings.settings())
    told = analyzer_pb2.AnalyzeDiagnostic(policyName=RULE, message="No.", enforcementLevel=analyzer_pb2.MANDATORY)

    def done(request, context):
        return "done"

    def answer(request, context):
        return analyzer_pb2.AnalyzeResponse(diagnostics=[told])

    servicer = SimpleNamespace(Configure=done, ConfigureStack=done, Analyze=answer, AnalyzeStack=answer)
    front.install(POLICIES)
    analyzer_pb2_grpc.add_AnalyzerServicer_to_server(servicer, None)  # type: ignore[arg-type]
    return servicer


def configure(servicer, *entries):
    given = as_settings({"tidemill:waivers": list(entries)}).text("tidemill:waivers")
    request = analyzer_pb2.AnalyzerStackConfigureRequest(config={"tidemill:waivers": given or ""})
    assert servicer.ConfigureStack(request, None) == "done"


def analyze(servicer, urn=GROUP):
    (found,) = servicer.Analyze(analyzer_pb2.AnalyzeRequest(urn=urn), None).diagnostics
    return found


def test_a_waived_violation_is_shown_but_stops_nothing(served):
    assert analyze(served).enforcementLevel == analyzer_pb2.MANDATORY
    configure(served, WAIVER | {"resource": "lines"})
    found = analyze(served)
    assert found.enforcementLevel == analyzer_pb2.ADVISORY
    assert found.message == "No.\nWaived until 2027-01-31: Moves to the shared account"
    assert analyze(served, OTHER).enforcementLevel == analyzer_pb2.MANDATORY


def test_a_waiver_that_has_ended_stops_again(served):
    configure(served, WAIVER | {"until": "2026-11-20"})
    found = analyze(served)
    assert found.enforcementLevel == analyzer_pb2.MANDATORY
    assert found.message == "No."


def test_what_is_said_of_the_stack_can_be_waived_too(served):
    configure(served, WAIVER)
    (found,) = served.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(), None).diagnostics
    assert found.enforcementLevel == analyzer_pb2.ADVISORY


class Refused(Exception):  # noqa: N818  what a server's context raises
    """What the engine is answered."""


class Context:
    """A call's context, as far as it is asked."""

    def abort(self, code, details):
        raise Refused(details)


@pytest.mark.parametrize(
    ("rule", "properties", "says"),
    [
        ("aws-s3-bucket-clsed", {}, "There is no rule aws-s3-bucket-clsed. Did you mean aws-s3-bucket-closed?"),
        (RULE, {"maxDay": 30}, f"{RULE} has no parameter maxDay. Allowed: maxDays. Did you mean maxDays?"),
        ("aws-s3-bucket-closed", {"zzz": 1}, "aws-s3-bucket-closed has no parameter zzz. Allowed: none."),
    ],
)
def test_a_name_that_is_wrong_in_the_packs_config_is_refused(served, rule, properties, says):
    request = analyzer_pb2.ConfigureAnalyzerRequest()
    request.policyConfig[rule].properties.update(properties)
    with pytest.raises(Refused) as caught:
        served.Configure(request, Context())
    assert str(caught.value) == says


def test_a_pack_config_that_is_right_is_handed_on(served):
    request = analyzer_pb2.ConfigureAnalyzerRequest()
    request.policyConfig[RULE].properties.update({"maxDays": 30})
    assert served.Configure(request, Context()) == "done"
