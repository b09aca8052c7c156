"""Points in time as users write them."""

from datetime import UTC, date, datetime, timedelta, timezone

import pandas as pd
import pytest

from deltasql.api.detail import time_text, to_ms
from deltasql.errors import BadArgumentError

NEW_YEAR = 1_767_225_600_000


@pytest.mark.parametrize(
    ("given", "milliseconds"),
    [
        (NEW_YEAR, NEW_YEAR),
        ("2026-01-01", NEW_YEAR),
        (date(2026, 1, 1), NEW_YEAR),
        (datetime(2026, 1, 1), NEW_YEAR),
        (datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), NEW_YEAR),
        (datetime(2026, 1, 1, 0, 0, 0, 999, tzinfo=UTC), NEW_YEAR),
        (datetime(2025, 12, 31, 23, 59, 59, 999_600, tzinfo=UTC), NEW_YEAR - 1),
        ("2025-12-31T23:59:59.999999Z", NEW_YEAR - 1),
        (datetime(1969, 12, 31, 23, 59, 59, 999_600, tzinfo=UTC), -1),
        (datetime.max, 253_402_300_799_999),
        (datetime.min, -62_135_596_800_000),
        (pd.Timestamp("2025-12-31T23:59:59.999999999Z"), NEW_YEAR - 1),
    ],
)
def test_parts_of_a_millisecond_are_cut_off(given, milliseconds):
    assert to_ms(given) == milliseconds


@pytest.mark.parametrize("given", [True, 1.5, None, [], "", "soon", b"2026", pd.NaT])
def test_what_is_no_time_is_refused(given):
    with pytest.raises(BadArgumentError, match="is not a time"):
        to_ms(given)


def test_every_number_has_a_text():
    assert time_text(NEW_YEAR) == "2026-01-01T00:00:00+00:00"
    assert time_text(-62_135_596_800_000) == "0001-01-01T00:00:00+00:00"
    for far in (253_402_300_800_000, -62_135_596_800_001, 2**63, -(2**63)):
        assert time_text(far) == f"{far} ms since 1970"
