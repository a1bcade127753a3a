"""`tidemill advise` from question to table. Prices, scores and buckets are invented or old; whether a cloud's score
tells the truth cannot be proven here."""

import datetime
import json
import re
from dataclasses import replace

import click
import pytest

from tests.unit.advice_fakes import DAY, ON_DEMAND, answered, score, spot_price, tables
from tests.unit.client.report.test_reclaims import mark, told
from tests.unit.client_fakes import gpu_machine, pipeline, queue
from tests.unit.report_jobs import made_job
from tidemill import layout
from tidemill.advice.shapes import Need
from tidemill.advice.sources import CapacityAdvice, CpuQuota, Gap, LiveAnswer, NoPermissionError, Range, TypeOffering
from tidemill.cli import main
from tidemill.cli.advice_table import show_advice
from tidemill.client.estimate.advise import AdviceRequest, advise
from tidemill.client.estimate.measured_speed import read_own
from tidemill.descriptor import Resources, Rung
from tidemill.ledger.digest import RanOn

GPUS = AdviceRequest(Need(gpus=4, gpu_memory_gb=24, families=("g5",)), ("us-west-2",), live=False)
ASK = ["advise", "--gpus", "4", "--gpu-memory", "24", "--families", "g5", "--regions", "us-west-2"]


@pytest.fixture(autouse=True)
def quiet(monkeypatch, tmp_path):
    monkeypatch.delenv("TIDEMILL_PIPELINE", raising=False)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "test")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def stack(installed):
    """A pipeline in a folder, with a queue of GPUs and one without."""
    queues = {
        "cpu": queue(),
        "gpu": queue(
            machines=[gpu_machine()],
            item=Resources(cpus=1, memory_mib=2048, gpus=1),
            capacity=[Rung(market="spot", max_cpus=64), Rung(market="on_demand", max_cpus=8)],
        ),
    }
    return installed(queues)[0]


def shown(found):
    return [(shape.count, shape.type, shape.market) for shape in found.shapes]


# ---- order -------------------------------------------------------------------------------------------------------


def test_four_small_spot_machines_come_before_one_large_machine(monkeypatch):
    """The old benchmark's matrix with the buckets of June 2025: the dearer g5.4xlarge is the cheaper one on Spot."""
    tables(monkeypatch)
    found = advise(GPUS)
    order = shown(found)
    assert order[0] == (4, "g5.4xlarge", "spot")
    assert order.index((4, "g5.2xlarge", "spot")) < order.index((1, "g5.12xlarge", "on_demand"))
    first = found.shapes[0]
    assert first.usd_unit_hour
    assert first.usd_unit_hour.value == pytest.approx(0.4872)
    assert first.interruption
    assert (first.interruption.low, first.interruption.as_of) == (15, DAY)
    # 17.5 % of a month's machines.
    assert first.reclaims
    assert first.reclaims.value == pytest.approx(3794.7, abs=1)
    assert first.reclaims.basis == "bucket"
    # sqrt(2 * 60 s * 3,794.7 h)
    assert first.save_every_seconds
    assert first.save_every_seconds.value == pytest.approx(40_488, abs=10)


def test_what_a_cloud_says_now_replaces_the_table(monkeypatch):
    tables(monkeypatch)
    answer = LiveAnswer(
        scores=(score(7),),
        prices=(
            spot_price("g5.4xlarge", "a", 0.9),
            spot_price("g5.4xlarge", "b", 1.0),
            spot_price("g5.xlarge", "a", 0.1),
        ),
        offered=(TypeOffering("us-west-2", None, DAY_TIME, "ec2:Offerings", "g5.12xlarge", False),),
    )
    answered(monkeypatch, answer)
    found = advise(AdviceRequest(GPUS.need, GPUS.regions, live=True))
    by_type = {shape.type: shape for shape in found.shapes if shape.market == "spot"}
    assert found.shapes[0].type == "g5.xlarge"
    price = by_type["g5.4xlarge"].price
    # The dearest zone now, and the range of all zones.
    assert price
    assert (price.now, price.low, price.high, price.days) == (1.0, 0.45, 2.0, 90)
    assert price.week == Range(0.9, 1.1, 7)
    assert price.source == "ec2:Prices"
    assert by_type["g5.2xlarge"].price
    assert by_type["g5.2xlarge"].price.source == "the advisor"
    assert {shape.score.value if shape.score else None for shape in by_type.values()} == {7}
    assert all(shape.score is None for shape in found.shapes if shape.market == "on_demand")
    assert not [shape for shape in found.shapes if shape.type == "g5.12xlarge"], "the region does not have it"


DAY_TIME = datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC)


def test_in_one_zone_scores_and_prices_are_the_zones(monkeypatch):
    tables(monkeypatch)
    answer = LiveAnswer(
        scores=(score(9, "usw2-az1"), score(2, "usw2-az2")),
        prices=(spot_price("g5.4xlarge", "a", 0.5), spot_price("g5.4xlarge", "b", 0.5)),
    )
    source = answered(monkeypatch, answer)
    need = Need(gpus=4, families=("g5",), types=("g5.4xlarge",), markets=("spot",))
    found = advise(AdviceRequest(need, ("us-west-2",), one_zone=True, live=True))
    assert [(shape.zone, shape.score and shape.score.value) for shape in found.shapes] == [
        ("usw2-az3", None),  # the table's price, which is lower
        ("usw2-az1", 9),
        ("usw2-az2", 2),
    ]
    assert [question.one_zone for question in source.questions] == [True]


def test_a_question_follows_from_the_tables_alone(monkeypatch):
    """AWS limits different questions per day: what was answered before must not change the next question."""
    tables(monkeypatch)
    asked = []
    for usd in (0.01, 99.0):
        source = answered(monkeypatch, LiveAnswer(prices=(spot_price("g5.xlarge", "a", usd),)))
        advise(AdviceRequest(GPUS.need, GPUS.regions, live=True))
        asked += source.questions
    assert len(asked) == 2
    assert len(set(asked)) == 1
    assert asked[0].types[:2] == ("g5.4xlarge", "g5.2xlarge")


def test_gcps_advice_is_a_score_and_the_least_that_machines_run(monkeypatch, capsys):
    said = CapacityAdvice("us-central1", None, DAY_TIME, "advice.capacity", 4, 0.8, 3600.0, ())
    answered(monkeypatch, LiveAnswer(capacity=(said,)))
    found = advise(AdviceRequest(Need(cpus=8, families=("n2",), markets=("spot",)), ("us-central1",), live=True))
    [shape] = found.shapes
    assert shape.score
    assert (shape.score.value, shape.score.of) == (0.8, 1)
    assert shape.uptime
    assert shape.uptime.value == 3600
    assert shape.at_least
    assert (
        main(["advise", "--cpus", "8", "--families", "n2", "--market", "spot", "--regions", "us-central1", "--live"])
        == 0
    )
    assert re.search(r" 0\.80 +> 60 min  ", capsys.readouterr().out)


def test_gcp_is_asked_for_a_project_that_pays(monkeypatch):
    source = answered(monkeypatch, LiveAnswer())
    wanted = AdviceRequest(Need(cpus=8, families=("n2",)), ("us-central1",), live=True)
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    assert [note for note in advise(wanted).notes if "GOOGLE_CLOUD_PROJECT" in note]
    assert source.questions == []
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "mine")
    assert advise(wanted).notes == []
    assert len(source.questions) == 1


def test_without_gpus_a_family_is_shown_once_unless_every_size_is_asked_for():
    wanted = AdviceRequest(Need(cpus=64, families=("n2",), markets=("spot",)), ("us-central1",), live=False)
    assert len(advise(wanted).shapes) == 1
    assert len(advise(AdviceRequest(wanted.need, wanted.regions, live=False, every_size=True)).shapes) > 5


def test_a_limit_of_the_account_is_said(monkeypatch):
    tables(monkeypatch)
    limit = CpuQuota("us-west-2", None, DAY_TIME, "servicequotas:GetServiceQuota", "spot", "g", 50.0)
    answered(monkeypatch, LiveAnswer(quotas=(limit,)))
    notes = advise(AdviceRequest(GPUS.need, GPUS.regions, live=True)).notes
    assert [note for note in notes if "50 vCPUs" in note and "servicequotas:GetServiceQuota, 2026-11-22" in note]


# ---- own jobs ----------------------------------------------------------------------------------------------------


def like(made, **changes):
    wanted = AdviceRequest(Need(cpus=64, families=("c7i",)), ("us-west-2",), like="tiles", live=False, **changes)
    return advise(wanted, made.job._watched.site)


def test_measured_types_are_ranked_by_the_cost_of_their_work(monkeypatch):
    monkeypatch.setitem(ON_DEMAND, "c7i.4xlarge", 0.714)
    tables(monkeypatch)
    made = made_job()
    found = like(made, every_size=True)
    measured = [shape for shape in found.shapes if shape.usd_million]
    assert found.shapes[: len(measured)] == measured
    assert {shape.type for shape in measured} == {"c7i.2xlarge", "c7i.4xlarge"}
    by_type = {shape.type: shape.items_per_second.value for shape in measured if shape.items_per_second}
    # Items take about 11 seconds of a slot; a c7i.4xlarge has 15, a c7i.2xlarge 7.
    assert by_type["c7i.4xlarge"] == pytest.approx(15 / 11, rel=0.15)
    assert by_type["c7i.2xlarge"] == pytest.approx(7 / 11, rel=0.15)
    first = next(shape for shape in measured if shape.market == "on_demand")
    assert first.usd_million
    assert first.items_per_second
    assert first.price
    assert first.usd_million.value == pytest.approx(first.price.now / 3600 / first.items_per_second.value * 1e6)
    assert "own job" in first.usd_million.source


@pytest.mark.parametrize(("factor", "speed", "cost"), [(1, "items/s", "USD/1M"), (1e-4, "items/h", "USD/item")])
def test_long_items_are_shown_per_hour(monkeypatch, capsys, factor, speed, cost):
    monkeypatch.setitem(ON_DEMAND, "c7i.4xlarge", 0.714)
    tables(monkeypatch)
    found = like(made_job(240))
    slower = [replace(shape, items_per_second=_times(shape.items_per_second, factor)) for shape in found.shapes]
    show_advice(replace(found, shapes=slower), wide=False, total=False)
    text = capsys.readouterr().out
    assert re.search(rf"^shape +where +{speed} +{cost}", text)
    assert "e-" not in text.split("from")[1].split("\n\n")[0].replace("on-demand", "")


def _times(figure, factor):
    return figure and replace(figure, value=figure.value * factor)


def test_few_machine_hours_say_nothing_of_reclaims_and_many_do():
    made = made_job()
    spec, site = made.job.spec, made.job._watched.site
    few = read_own(site, spec)
    assert few.reclaims == {}
    assert few.item_seconds == pytest.approx(11, rel=0.15)
    for chunk in range(200, 220):
        mark(site.store, made.job.id, chunk, told(RanOn("i-9", "c7i.4xlarge", "a", "spot"), 14 * 3600 * 10.0, 0))
    mean = read_own(site, spec).reclaims["c7i.4xlarge"]
    # A container of one slot ran for 140 hours before each of 20 reclaims: 2,800 slot-hours, of 15 slots per machine.
    assert mean.value == pytest.approx(140, rel=0.02)
    assert mean.basis == "own"
    assert re.fullmatch(r"20 reclaims in 187 machine-hours of 1 own job", mean.source)


def test_many_jobs_and_records_cost_few_requests(monkeypatch):
    made = made_job(9600, 24)
    store = made.job._watched.site.store
    asked: list[str] = []
    get, entries = store.get_range, store.entries
    monkeypatch.setattr(store, "get_range", lambda name, *rest: (asked.append(name), get(name, *rest))[1])
    monkeypatch.setattr(store, "entries", lambda *at: (asked.append(str(at)), entries(*at))[1])
    own = read_own(made.job._watched.site, made.job.spec)
    assert own.items_per_second
    assert len(asked) <= 70
    assert own.items_per_second["c7i.4xlarge"].value == pytest.approx(15 / 11, rel=0.15)


def test_a_job_of_another_name_is_other_work():
    made = made_job()
    other = made.job.spec.model_copy(update={"name": "other", "job": "other-12345678"})
    assert read_own(made.job._watched.site, other.model_copy(update={"job": made.job.id})).items_per_second == {}


def test_a_job_that_ran_on_none_of_the_machines_measures_nothing():
    made = made_job(240)
    wanted = AdviceRequest(Need(cpus=64, families=("n2",)), ("us-central1",), like="tiles", live=False)
    found = advise(wanted, made.job._watched.site)
    assert {shape.items_per_second for shape in found.shapes} == {None}
    assert found.notes == ["No speed is measured: jobs named tiles have run on none of these machines."]


def test_a_damaged_job_takes_only_its_own_figures_away(tmp_path):
    (tmp_path / "s").mkdir()
    damaged, whole = (made_job(items, uri=f"file://{tmp_path}/s") for items in (240, 480))
    store = whole.job._watched.site.store
    for chunk in range(damaged.job.spec.chunks_total):
        store.put(layout.done(damaged.job.id, 0, chunk), b"no record\n")
    found = read_own(whole.job._watched.site, whole.job.spec)
    assert {figure.source for figure in found.items_per_second.values()} == {"1 own job"}
    assert [damaged.job.id in said for said in found.left_out] == [True]


# ---- a queue -----------------------------------------------------------------------------------------------------


def test_a_queue_is_shown_as_it_stands(monkeypatch, stack, capsys):
    tables(monkeypatch)
    scores = LiveAnswer(
        scores=(score(6), score(8, "usw2-az1"), score(3, "usw2-az2")), prices=(spot_price("g5.2xlarge", "a", 0.6),)
    )
    source = answered(monkeypatch, scores)
    assert main(["advise", "--queue", "gpu"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"g5.2xlarge spot +0.6000 +0.600 +0.600-0.660 +0.300-1.200 +6/10 +> 20 % ", text)
    assert re.search(r"g5.2xlarge on-demand +1.2120 +1.212 ", text)
    assert text.index("usw2-az1: 8/10") < text.index("usw2-az2: 3/10")
    assert [question.one_zone for question in source.questions] == [False, True]
    assert "AWS scores fewer than 3 types low by rule, and 1 is asked about" in text


def test_a_type_that_costs_more_than_the_queue_pays_is_named(monkeypatch):
    tables(monkeypatch)
    answered(monkeypatch, LiveAnswer(prices=(spot_price("g5.2xlarge", "a", 0.9),)))
    capped = queue(machines=[gpu_machine()], capacity=[Rung(market="spot", max_cpus=64, max_price_percent=70)])
    made, _ = pipeline(queues={"gpu": capped})
    notes = advise(AdviceRequest(Need(), queue="gpu"), made.site).notes
    assert (
        "g5.2xlarge costs 0.900 USD/h on Spot, more than the queue pays: 70 % of 1.212 (2025-06-01, a price list)."
        in notes
    )


def test_one_reason_of_several_gaps_is_one_line(monkeypatch):
    tables(monkeypatch)
    gaps = tuple(Gap(call, "", NoPermissionError(f"{call}: no login.", "Log in.")) for call in ("ec2:A", "ec2:B"))
    answered(monkeypatch, LiveAnswer(gaps=gaps))
    notes = advise(AdviceRequest(GPUS.need, GPUS.regions, live=True)).notes
    assert "ec2:A, ec2:B: no login. Log in." in notes


# ---- what is printed ---------------------------------------------------------------------------------------------

LIVE = LiveAnswer(
    scores=(score(7),),
    prices=(spot_price("g5.4xlarge", "a", 0.9),),
    gaps=(Gap("servicequotas:GetServiceQuota", "us-west-2", NoPermissionError("You may not ask for quotas.", "Ask.")),),
)


def figures(part, path=""):
    """Every number of a document that stands for something learnt, with the object that it is in."""
    if isinstance(part, dict):
        for key, value in part.items():
            if isinstance(value, float) and key not in ("hours", "save_seconds", "restart_seconds"):
                yield f"{path}.{key}", part
            yield from figures(value, f"{path}.{key}")
    elif isinstance(part, list):
        for value in part:
            yield from figures(value, path)


@pytest.mark.parametrize("answer", [LiveAnswer(), LIVE])
def test_every_printed_figure_has_its_date_and_source(monkeypatch, capsys, answer):
    tables(monkeypatch)
    answered(monkeypatch, answer)
    assert main([*ASK, "--live", "--json", "--hours", "20"]) == 0
    found = json.loads(capsys.readouterr().out)
    learnt = list(figures(found))
    assert len(learnt) > 50
    for path, holder in learnt:
        # A range lies in the price that it belongs to.
        inside = holder if "source" in holder else found["shapes"][0]["price"]
        assert datetime.date.fromisoformat(inside["as_of"]) <= datetime.datetime.now(datetime.UTC).date(), path
        assert inside["source"], path


@pytest.mark.parametrize("wide", [[], ["--wide"]])
def test_every_figure_of_the_table_has_a_letter_and_every_letter_a_line(monkeypatch, capsys, wide):
    tables(monkeypatch)
    answered(monkeypatch, LIVE)
    assert main([*ASK, "--live", "--hours", "20", *wide]) == 0
    lines = capsys.readouterr().out.splitlines()
    legend = {line[0]: line[3:] for line in lines if re.match(r"[a-z]  \w.*: \d{4}-\d\d-\d\d, \S", line)}
    rows = [re.split(r" {2,}", line.strip()) for line in lines[1 : 1 + len(shown(advise(GPUS)))]]
    header = re.split(r" {2,}", lines[0].strip())
    assert header[-1] == "from"
    for row in rows:
        cells = dict(zip(header, row, strict=True))
        said = " ".join(legend[letter] for letter in cells["from"] if letter != "-")
        if cells["USD/GPU-h"] != "unknown":
            assert ("Spot prices" if cells["shape"].endswith(" spot") else "On-Demand prices") in said
        for column, what in (("score", "score"), ("reclaims", "reclaims")):
            known = cells[column] not in ("unknown", "-", "never")
            assert known == (f"{what}: " in said), (cells, said)
        if wide:
            assert "machine types: " in said
    assert set("".join(row[-1] for row in rows)) - {"-"} == set(legend)
    assert "You may not ask for quotas. Ask." in lines
    assert lines[-1].startswith("A hint")


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize(
    "arguments", [[*ASK, "--live", "--hours", "20"], ["advise", "--queue", "gpu"]], ids=["gpus", "queue"]
)
def test_the_table_fits_a_terminal_without_cut_figures(monkeypatch, stack, capsys, columns, arguments):
    tables(monkeypatch)
    answered(monkeypatch, LIVE)
    assert main(arguments) == 0
    whole = capsys.readouterr().out.splitlines()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(arguments) == 0
    lines = click.unstyle(capsys.readouterr().out).splitlines()
    table = [line for line in lines if "  " in line[1:] and not re.match(r"[a-z]  ", line)]
    assert len(table) > 2
    assert max(map(len, table)) <= columns
    assert "…" not in "".join(lines)
    gone = {
        header for line in lines if line.startswith("No room for: ") for header in line[13:].split(". ")[0].split(", ")
    }
    header = re.split(r" {2,}", whole[0])
    assert [name for name in header if name not in gone] == re.split(r" {2,}", table[0])
    assert not gone or columns < 120


def test_what_is_unknown_everywhere_is_one_line(capsys):
    assert main(["advise", "--cpus", "64", "--families", "n2", "--regions", "us-central1", "--offline"]) == 0
    text = capsys.readouterr().out
    assert "Unknown for all of these: score, reclaims." in text
    assert "unknown" not in text


def test_without_a_pipeline_no_cloud_is_asked(monkeypatch, capsys):
    source = answered(monkeypatch, LIVE)
    assert main(["advise", "--cpus", "64", "--regions", "us-central1"]) == 0
    assert source.questions == []


def test_the_pipelines_cloud_and_region_are_asked(monkeypatch, stack, capsys):
    tables(monkeypatch)
    source = answered(monkeypatch, LIVE)
    assert main(["advise", "--gpus", "1"]) == 0
    assert [question.regions for question in source.questions] == [("us-west-2",)]
    assert main(["advise", "--gpus", "1", "--offline"]) == 0
    assert len(source.questions) == 1
