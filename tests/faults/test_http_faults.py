"""What a wire can do to one step of the mirror, as real HTTP before real servers.

Each row is a store and a step, each cell an answer: a status that the server never saw, a request
or a reply that is lost, a reply that is cut, a reply that comes too late. It lasts until a
version would be stuck; then the wire is well and one pass ends it.

Cells that make no sense:
  412 at a plain put, a read or a list   no condition was sent that could fail
  409 at a read or a list                a read conflicts with nothing
  truncate at a put                      the body of its reply is not looked at; lost_reply is it
"""

import uuid

import pytest

import servers
from fault_proxy import FaultProxy
from fault_steps import Weather, suffer

COMMIT, CHECKPOINT = r"\d{20}\.json($|\?)", r"checkpoint\.parquet($|\?)"
LOST = "lost_reply"
# step: method, path, and the rule that brings the mirror there
STEPS = {
    "commit put": ("PUT", COMMIT, None),
    "commit read back": ("GET", COMMIT, (LOST, "PUT", COMMIT)),
    "checkpoint put": ("PUT", CHECKPOINT, None),
    "checkpoint look": ("HEAD", CHECKPOINT, None),
    "checkpoint verify": ("GET", CHECKPOINT, (LOST, "PUT", CHECKPOINT)),
    "hint put": ("PUT", r"_last_checkpoint($|\?)", None),
    "hint read": ("GET", r"_last_checkpoint($|\?)", None),
    "list": ("GET", r"[?&](list-type|comp=list)", None),
}
ANSWERS = ["500", "503", "429", "409", "412", "403", "drop_request", LOST, "truncate:150", "hang:1"]
CONDITIONAL = {"commit put", "checkpoint put"}


def _makes_sense(step: str, answer: str) -> bool:
    is_put = STEPS[step][0] == "PUT"
    if answer == "412":
        return step in CONDITIONAL
    if answer == "409":
        return is_put
    if answer.startswith("truncate"):
        return not is_put
    return True


OPTIONS = {
    "s3": servers.s3_options,
    "azure": servers.azure_options,
    "gcs": servers.gcs_options,
}
SCHEMES = {"s3": "s3", "azure": "az", "gcs": "gs"}
ROWS = [(step, answer) for step in STEPS for answer in ANSWERS if _makes_sense(step, answer)]


def _size(place: str, number: int) -> pytest.MarkDecorator:
    """S3 is verified whole; the other two have a quarter each, and are whole in the soak."""
    is_turn = place == "s3" or number % 4 == {"azure": 0, "gcs": 2}[place]
    return pytest.mark.verify if is_turn else pytest.mark.soak


CELLS = [
    pytest.param(place, *row, marks=_size(place, number))
    for place in OPTIONS
    for number, row in enumerate(ROWS)
]


@pytest.fixture
def proxy(request, place):
    made = FaultProxy(request.getfixturevalue(f"{place}_server").port)
    yield made
    made.close()


@pytest.mark.parametrize(("place", "step", "answer"), CELLS)
def test_an_answer_at_a_step(tmp_path, proxy, place, step, answer):
    method, path, prelude = STEPS[step]
    # a late reply must be later than the patience, and does not last: it would be minutes
    count = 2 if answer.startswith("hang") else 10**6
    rules = []

    def begin() -> None:
        if prelude is not None:
            proxy.rule(*prelude, count=10**6)
        rules.append(proxy.rule(answer, method, path, count))

    weather = Weather(begin, proxy.rules.clear, lambda: sum(rule.hits for rule in rules))
    options = OPTIONS[place](proxy.endpoint) | {"timeout": "600ms"}
    location = f"{SCHEMES[place]}://{servers.BUCKET}/wire-{uuid.uuid4().hex[:8]}"
    suffer(f"deltasql://sqlite/{tmp_path}/c.db", location, weather, storage_options=options)
