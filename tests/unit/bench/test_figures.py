"""The benchmarks' figures: percentiles, lags, bars, pictures, and what a report keeps."""

import xml.etree.ElementTree as ET

import pytest
from bench import report
from bench.child import CaseFailedError, _last_line
from bench.plot import curve_of, draw
from bench.results import Bar, Case, Curve, Measured, Plan, Row, percentile, ratio
from bench.steady import lags

SVG = "{http://www.w3.org/2000/svg}"


def test_a_percentile_is_a_value_that_was_measured():
    values = [5.0, 1.0, 3.0, 2.0, 4.0]
    assert [percentile(values, share) for share in (0, 0.2, 0.5, 0.95, 1)] == [1, 1, 3, 5, 5]
    assert percentile([], 0.5) is None


def test_a_missing_figure_has_no_ratio():
    assert ratio(6.0, 3.0) == 2.0
    assert ratio(None, 3.0) is None
    assert ratio(6.0, None) is None


def test_bars_tell_their_unit_and_hold_at_their_limit():
    assert Bar.least("drain", 500.0, 500, "/s") == Bar("drain", 500.0, "at least 500/s", True)
    assert Bar.most("lag", 5.1, 5, " s") == Bar("lag", 5.1, "at most 5 s", False)
    assert Bar.most("lag", None, 5).holds is None


def test_a_lag_counts_from_the_commit_to_the_first_word_of_the_log():
    committed = {"t": [[1, 1_000.0], [2, 2_000.0]]}
    mirrored = [("t", 1, 1_500.0), ("t", 1, 9_000.0), ("t", 2, 1_999.5)]
    assert lags(committed, mirrored) == {"t": {1: 0.5, 2: 0.0}}


def test_a_version_that_nobody_mirrored_fails_the_case():
    with pytest.raises(CaseFailedError, match="1 versions"):
        lags({"t": [[1, 1_000.0], [2, 2_000.0]]}, [("t", 2, 3_000.0)])


def test_a_curve_ends_with_the_longest_and_never_falls():
    curve = curve_of("x", [float(n) for n in range(1, 5_001)])
    assert curve.points[-1] == [5_000.0, 1.0]
    assert len(curve.points) <= 101
    assert curve.points == sorted(curve.points)
    assert curve_of("none", []).points == []


@pytest.mark.parametrize("values", [[], [0.0, 0.0], [0.001], [0.02, 0.5, 70.0]])
def test_any_distribution_can_be_drawn_inside_the_picture(values):
    root = ET.fromstring(draw([curve_of("a < b", values)], "s"))
    lines = root.findall(f"{SVG}polyline")
    assert len(lines) == bool(values)
    for line in lines:
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= 720
            assert 0 <= y <= 360


def test_what_a_child_said_last_names_no_folder():
    said = "Traceback\n  File x\nOSError: cannot open '/some/where/on/disk/file.py' (1/2)\n\n"
    assert _last_line(said) == "OSError: cannot open 'file.py' (1/2)"
    assert _last_line(" \n") == "it said nothing"


def a_case(name: str, value: float) -> Case:
    row = Row.of("SQLite", [Measured(value, 100)], {"p95, s": 2 * value})
    curves = [Curve("SQLite", [[value, 1.0]])]
    return Case(name, name.title(), "s", [row], [Bar.most(name, value, 5, " s")], "How.", curves)


def test_a_case_measured_again_replaces_itself_alone(tmp_path):
    plan, quiet = Plan(tmp_path, None, is_quick=True), report.Quiet(0.0, 0.1)
    report.write(tmp_path, plan, [a_case("lag", 1.0), a_case("drain", 2.0)], quiet, quiet)
    told = report.merged(tmp_path, plan, [a_case("lag", 3.0)])
    assert [(case.name, case.rows[0].value) for case in told] == [("lag", 3.0), ("drain", 2.0)]
    assert told[1] == a_case("drain", 2.0)


def test_a_report_shows_the_picture_beside_it(tmp_path):
    plan, quiet = Plan(tmp_path, None, is_quick=True), report.Quiet(0.0, 0.1)
    report.write(tmp_path, plan, [a_case("lag", 1.0)], quiet, quiet)
    page = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert "(benchmarks-lag.svg)" in page
    assert "| lag | at most 5 s | 1 | holds |" in page
    ET.parse(tmp_path / "benchmarks-lag.svg")


def test_a_quick_run_tries_each_mode_and_each_database_once(tmp_path):
    modes, backends = ("worker", "inline"), ("sqlite", "postgres")
    quick = Plan(tmp_path, object(), is_quick=True).pairs(modes, backends)
    assert quick == [("sqlite", "worker"), ("postgres", "inline")]
    assert len(Plan(tmp_path, object(), is_quick=False).pairs(modes, backends)) == 4
    assert Plan(tmp_path, None, is_quick=True).pairs(modes, backends) == [("sqlite", "worker")]
