"""For users' own tests: the guarantees checked, stores that fail on a script, crash points."""

from deltasql.storage.memory import MemoryStore
from deltasql.testing.faults import Fault, Kind, RandomFaults, ScriptedFaults
from deltasql.testing.faulty import FaultyStore
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
