"""What `hermes bench` measures and how it says it; no figure is judged here."""

from __future__ import annotations

import msgspec
import pytest

from hermes import HermesError, Sandbox
from hermes.bench import Report, Row, Stats, _run, machine, render, render_rows, run_bench, time_turns


def test_stats_of_one_value_and_of_many() -> None:
    assert Stats.of([2.0]) == Stats(runs=1, min=2, median=2, p95=2, p99=2, max=2)
    values = [float(number) for number in range(100, 0, -1)]
    assert Stats.of(values) == Stats(runs=100, min=1, median=50.5, p95=95, p99=99, max=100)


def test_a_row_compares_medians() -> None:
    row = Row.of("k", "what", [1.0, 2.0, 3.0], [4.0, 4.0, 100.0])
    assert row.ratio == 0.5
    assert Row.of("k", "what", [1.0]).ratio is None
    assert Row.of("k", "what", [1.0], [0.0]).ratio is None


def rows() -> list[Row]:
    many = [0.0004 + number / 1e6 for number in range(500)]
    return [
        Row.of("true", "true", many, [one * 4 for one in many]),
        Row.of("cold", "a name that is far too long for its column, by any measure", [1.5] * 3),
        Row.of("rate", "rate", [512e6], [256e6], unit="B/s", complete=True, bytes_kept=100, peak=None),
    ]


def test_the_table_says_on_each_line_what_it_is_about() -> None:
    lines = render_rows(rows()).splitlines()
    assert max(len(line) for line in lines) <= 80
    table = [line for line in lines if " hermes " in line or " plain " in line or " ratio " in line]
    assert [line[:6].strip() for line in table] == ["true"] * 3 + ["a name"] + ["rate"] * 3
    assert table[0].split()[-9:] == ["0.649", "ms", "0.874", "ms", "0.894", "ms", "0.400", "ms", "500"]
    assert table[2].split()[-4:] == ["0.25"] * 4
    assert table[3].split()[-5:] == ["1.500", "s", "1.500", "s", "3"], "percentiles of three runs say nothing"
    assert table[6].split()[-1] == "2.00"
    assert lines[-3:] == ["rate, complete: yes", "rate, bytes kept: 100", "rate, peak: unknown"]


@pytest.mark.parametrize("width", [72, 80, 120])
@pytest.mark.parametrize("plain", ["bash -c COMMAND", ""])
def test_a_report_keeps_to_its_width(width: int, plain: str) -> None:
    report = Report(
        backend="local", plain=plain, taken=0.0, machine=machine(), load_after=(1.0, 2.0, 3.0), rows=rows()
    )
    text = render(report, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert ("nothing to compare" in text.replace("\n", " ")) is not bool(plain)
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


@pytest.mark.blocking_ok  # the plain way blocks on purpose
async def test_a_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run, "OUTPUT", 2_000_000)
    monkeypatch.setattr(_run, "WARM_UP", 1)
    parts: list[str] = []
    report = await run_bench("local", runs=4, progress=parts.append)
    expected = "cold_start attach true /bin/true true_alone at_once output rate host_memory guest_memory"
    assert [row.key for row in report.rows] == expected.split()
    assert report.plain == "bash -c COMMAND"
    assert len(parts) == 7
    for row in report.rows:
        assert row.hermes.min <= row.hermes.median <= row.hermes.p95 <= row.hermes.p99 <= row.hermes.max
        assert (row.plain is None) is (row.key == "guest_memory")
    by_key = {row.key: row for row in report.rows}
    assert by_key["true"].hermes.runs == 4
    assert by_key["output"].facts == {"complete": True, "bytes_kept": 2_000_000}


@pytest.mark.blocking_ok
async def test_a_command_that_fails_is_not_measured() -> None:
    async with Sandbox("local") as box:
        with pytest.raises(HermesError, match="'false' ended with 1"):
            await time_turns(box, "false", None, 5, block=5)
