"""A commit in SQL: requested, checked under the lock, encoded, inserted.

The API and the features commit through `registry`. Start with `committer`; `request` has the
values that go in and come out.
"""
