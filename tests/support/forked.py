"""Run a function in a forked child."""

import json
import os
import traceback


def in_child(work):
    """Fork, run `work` in the child and return what it returned as JSON; errors are told."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = {"result": work()}
        except BaseException as error:  # noqa: BLE001 (it must reach the parent)
            answer = {"error": "".join(traceback.format_exception(error))}
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    assert answer, "the child died"
    found = json.loads(answer)
    assert "error" not in found, found
    return found["result"]
