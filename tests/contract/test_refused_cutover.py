"""A cut-over that is refused leaves the log to whom it belongs."""

import pytest

import deltasql
from deltasql.errors import DeltaSqlError
from deltasql.log.owner_marker import OWNER_KEY
from import_logs import add, do_import, remove, write_commit, write_log

_NEW = {"minReaderVersion": 3, "minWriterVersion": 7}
REFUSED = {
    "one file twice": [add("x"), remove("x")],
    "unknown feature": [{"protocol": {**_NEW, "readerFeatures": ["f"], "writerFeatures": ["f"]}}],
    "unknown writer feature": [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["f"]}}
    ],
    "no action": [{"add": {"path": 1}}],
}


@pytest.mark.req("R75")
@pytest.mark.parametrize("kind", REFUSED)
def test_the_owner_marker_goes_again(catalog_uri, second_uri, tmp_path, kind):
    root = write_log(tmp_path / "t", [[add(f"f{v}", v)] for v in range(3)])
    with deltasql.connect(catalog_uri) as catalog:
        do_import(catalog, root)
        write_commit(root, 3, REFUSED[kind])
        with pytest.raises(DeltaSqlError):
            catalog.cutover("t", follow=True)
        assert catalog.table("t").state == "read_only"
    assert not (root / OWNER_KEY).exists()
    with deltasql.connect(second_uri) as other:
        other.create_if_missing()
        do_import(other, root, up_to_version=2)
