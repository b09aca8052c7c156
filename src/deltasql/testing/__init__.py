"""For users' own tests: the guarantees checked, stores that fail on a script, crash points.

The package itself never imports it. Start with `invariants` and `inspect`.
"""

from deltasql.storage.memory import MemoryStore
from deltasql.testing.faulty_store import Fault, FaultyStore, Kind, RandomFaults, ScriptedFaults
from deltasql.testing.inspect import Inspection, inspect
from deltasql.testing.invariants import check_invariants, find_violations

__all__ = [
    "Fault",
    "FaultyStore",
    "Inspection",
    "Kind",
    "MemoryStore",
    "RandomFaults",
    "ScriptedFaults",
    "check_invariants",
    "find_violations",
    "inspect",
]
