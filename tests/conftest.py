"""What every test shares: the fixtures' plugins and Hypothesis' profiles."""

import os
from datetime import timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings

_PLUGINS = (
    "store_fixtures",
    "pg_fixtures",
    "catalog_fixtures",
    "corpora_fixtures",
    "cli_fixtures",
    "spark_fixtures",
    "shared_spark",
)
pytest_plugins = [
    f"plugins.{name}"
    for name in _PLUGINS
    if (Path(__file__).parent / "plugins" / f"{name}.py").exists()
]

# the same examples on every run; `make fuzz` looks for new ones
settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get("DELTASQL_FUZZ_EXAMPLES", "2000")),
    deadline=timedelta(seconds=10),
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
