"""URIs: what we print we can read, and nothing prints a password."""

from hypothesis import given
from hypothesis import strategies as st

from deltasql.errors import BadUriError
from deltasql.uri import PostgresUri, Secret, SqliteUri, parse_uri

CANARY = "cAnArY0"
names = st.text(
    st.characters(blacklist_characters="\x00", blacklist_categories=["Cs"]), min_size=1, max_size=12
)
paths = names.filter(lambda text: not text.startswith(":") and not text.endswith("/"))


@given(paths, st.none() | names)
def test_sqlite_uri_survives_printing(path, table):
    uri = SqliteUri(path, table)
    assert parse_uri(str(uri)) == uri


@given(names, names, st.none() | names, names)
def test_postgres_uri_survives_printing_without_its_password(database, schema, table, host):
    parameters = (("dbname", database), ("host", host))
    uri = PostgresUri((*parameters, ("password", Secret(CANARY))), schema, table)
    assert CANARY not in str(uri) + repr(uri)
    assert parse_uri(str(uri)) == PostgresUri(parameters, schema, table)


@given(st.text(max_size=8), st.text(max_size=8), st.sampled_from(["postgresql", "deltasql", "x"]))
def test_a_password_in_any_uri_never_shows(before, after, scheme):
    try:
        shown = repr(parse_uri(f"{scheme}://u:{before}{CANARY}{after}@host/db"))
    except BadUriError as error:
        shown = f"{error!r}{error.context}{error.advice}"
    assert CANARY not in shown
