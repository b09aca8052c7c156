"""Whether Spark can be used is known without loading it; how it starts is decided in one place."""

import json
import subprocess
import sys

import pytest

from deltasql.errors import BadArgumentError
from deltasql.spark_runtime import launch as spark_session
from deltasql.spark_runtime.launch import available, import_session


def test_nothing_of_spark_is_loaded_to_know_whether_it_is_there():
    program = (
        "import sys, json\n"
        "from deltasql.spark_runtime.launch import available\n"
        "import deltasql.imports.engines.local, deltasql.imports.engines.spark\n"
        "print(json.dumps([available(), 'pyspark' in sys.modules]))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert json.loads(told.stdout) == [available(), False]


def test_spark_without_java_is_no_spark():
    assert not available({"PATH": "/nonexistent", "PYSPARK_PYTHON": "/bin/false"})


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[3]", "local[3,4]"),
        ("local[3,1]", "local[3,1]"),
        ("spark://a:7077", "spark://a:7077"),
    ],
)
def test_a_local_master_gives_tasks_more_than_one_attempt(given, used):
    assert spark_session._with_attempts(given) == used


def test_what_the_user_sets_beats_what_we_set():
    told = spark_session._settings(
        "local[1,4]", {"spark.ui.port": "4040", "spark.driver.extraJavaOptions": "-Xss4m"}
    )
    assert told["spark.ui.port"] == "4040"
    assert told["spark.driver.extraJavaOptions"].endswith(" -Xss4m")
    assert "log4j2.configurationFile=file:///" in told["spark.driver.extraJavaOptions"]


def test_the_active_session_is_taken_and_never_stopped(spark):
    found = import_session(None, {})
    assert found.context is spark.context
    assert not found.is_ours
    found.close()
    assert spark.context.parallelize([1, 2], 2).sum() == 3


def test_another_master_beside_an_active_session_is_refused(spark):
    with pytest.raises(BadArgumentError, match="is active in this process"):
        import_session("local[7]", {})


def test_py4j_prints_no_stack_when_its_jvm_resets_the_connection():
    program = (
        "import socket, struct, threading, types\n"
        "from py4j.java_gateway import GatewayClient, GatewayParameters\n"
        "from py4j.protocol import Py4JError, get_return_value\n"
        "from deltasql.spark_runtime.launch import first_cause\n"
        "from deltasql.spark_runtime.launch import _quiet\n"
        "_quiet(types.SimpleNamespace(_accumulatorServer=types.SimpleNamespace()))\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "def reset():\n"
        "    peer, _ = server.accept()\n"
        "    peer.recv(100)\n"
        "    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n"
        "    peer.close()\n"
        "threading.Thread(target=reset).start()\n"
        "where = GatewayParameters(port=server.getsockname()[1])\n"
        "client = GatewayClient(gateway_parameters=where)\n"
        "answer = client.send_command('c\\no1\\ncollect\\ne\\n')\n"
        "try:\n"
        "    get_return_value(answer, client, 'o1', 'collect')\n"
        "except Py4JError as error:\n"
        "    print(first_cause(error))\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert told.stdout.decode() == "Spark's JVM has ended, perhaps for want of memory.\n"
    assert told.stderr == b""


@pytest.mark.verify
def test_after_a_jvm_has_died_another_one_serves():
    program = (
        "import os, signal\n"
        "from deltasql.spark_runtime.launch import import_session\n"
        "for kills in (True, False):\n"
        "    session = import_session('local[1]', {})\n"
        "    if kills:\n"
        "        process = session.context._gateway.proc\n"
        "        os.kill(process.pid, signal.SIGKILL)\n"
        "        process.wait()\n"
        "    else:\n"
        "        print(session.context.parallelize([1, 2], 2).sum())\n"
        "    session.close()\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert told.stdout.split() == [b"3"], told.stderr.decode()
