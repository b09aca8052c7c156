"""Histories of commits to one table, as Hypothesis draws them."""

from hypothesis import strategies as st

from commits import add, info, metadata, remove, vector
from deltasql.protocol.actions import DomainMetadata, Protocol, Txn

# one place in three spellings, a host of that name, and relative paths
PATHS = ["/x", "file:/x", "file:///x", "file://x", "a", "a%20b", "a b", "s3://b/x"]
PLACES = {"/x": "X", "file:/x": "X", "file:///x": "X"}
VECTORS = [None, vector(1), vector(2), vector(0)]
FILES = st.tuples(st.sampled_from(PATHS), st.sampled_from(VECTORS))
SIZES = st.integers(0, 5)


def place(action) -> tuple[str, str]:
    """The file's identity, told apart from the code under test."""
    found = action.deletion_vector
    name = None if found is None else (found.storage_type, found.path_or_inline_dv, found.offset)
    return PLACES.get(action.path, action.path), str(name)


def one_per_place(actions):
    return list({place(action): action for action in actions}.values())


ADDS = st.builds(lambda file, size: add(file[0], deletion_vector=file[1], size=size), FILES, SIZES)
REMOVES = st.builds(
    lambda file, size: remove(file[0], deletion_vector=file[1], size=size), FILES, SIZES
)
FILE_ACTIONS = st.lists(ADDS | REMOVES, max_size=5).map(one_per_place)
TXNS = st.lists(
    st.builds(Txn, app_id=st.sampled_from("pq"), version=SIZES),
    max_size=2,
    unique_by=lambda a: a.app_id,
)
DOMAINS = st.lists(
    st.builds(
        DomainMetadata,
        domain=st.sampled_from("de"),
        configuration=st.sampled_from(["1", "2"]),
        removed=st.booleans(),
    ),
    max_size=2,
    unique_by=lambda a: a.domain,
)
RULES = st.lists(
    st.builds(metadata, name=st.sampled_from(["n", "m"]))
    | st.builds(Protocol, min_reader_version=st.integers(1, 2), min_writer_version=st.just(2)),
    max_size=2,
    unique_by=lambda a: a.kind,
)
INFOS = st.lists(st.builds(info, in_commit_timestamp=SIZES), max_size=1)
COMMIT = st.tuples(FILE_ACTIONS, TXNS, DOMAINS, RULES, INFOS).flatmap(
    lambda parts: st.permutations([action for part in parts for action in part])
)
HISTORIES = st.lists(COMMIT, max_size=8)
