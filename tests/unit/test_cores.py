"""Code that asks for cores runs on systems that do not say what a process may use."""

import os

from deltasql.cores import usable_cores


def test_no_more_cores_are_used_than_this_process_may(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3}, raising=False)
    assert usable_cores() == 2


def test_without_that_call_all_cores_count(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert usable_cores() == 8


def test_there_is_always_one_core(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1
