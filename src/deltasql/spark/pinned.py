"""The tables of a catalog as a transaction found them, by the names that Spark's SQL gives them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from deltasql.catalog.rows import TableRow
from deltasql.errors import BadArgumentError, BadUriError
from deltasql.spark.statement import Named
from deltasql.storage.resolve import location_key


@dataclass(frozen=True, slots=True)
class PinnedTables:
    """All tables of a catalog at one moment."""

    by_name: Mapping[str, TableRow]
    by_lower_name: Mapping[str, Sequence[TableRow]]

    @classmethod
    def of(cls, rows: Sequence[TableRow]) -> PinnedTables:
        """Return the tables of these rows."""
        lower: dict[str, list[TableRow]] = {}
        for row in rows:
            lower.setdefault(row.full_name.lower(), []).append(row)
        return cls({row.full_name: row for row in rows}, lower)

    def find(self, name: str) -> TableRow | None:
        """Return a table by its name, or by the same letters, small or capital, if it is alone."""
        if name in self.by_name:
            return self.by_name[name]
        alike = self.by_lower_name.get(name.lower(), ())
        return alike[0] if len(alike) == 1 else None

    def refuse_stranger(self, named: Named, staged_paths: Container[str]) -> None:
        """Refuse what is no table of the catalog where it would escape the transaction.

        Raises:
            BadArgumentError: it would be written to, or is a table of ours behind our back.
        """
        is_path = len(named.parts) == 2 and named.parts[0].lower() == "delta"  # noqa: PLR2004
        if is_path and named.parts[1] in staged_paths:
            return
        if named.is_target:
            raise BadArgumentError(
                f"{named.text} is no table of the catalog: what is written to it could not be "
                "taken back.",
                hint="List the tables with `deltasql tables`.",
            )
        ours = self._at(named.parts[1]) if is_path else None
        if ours is not None:
            raise BadArgumentError(
                f"The path {named.parts[1]} is that of the table {ours.full_name}.",
                hint="Name the table: its log may be behind the catalog.",
            )

    def refuse_table_behind(self, named: Named, places: Iterable[str]) -> None:
        """Refuse a table or view of Spark's own catalog that reads a table of ours from its log.

        Raises:
            BadArgumentError: one of the places is a table's root: its log may be behind the
                catalog, and what the transaction wrote would not be seen.
        """
        for place in places:
            ours = self._at(place)
            if ours is not None:
                raise BadArgumentError(
                    f"{named.text} of Spark's own catalog reads the table {ours.full_name}, not "
                    "what the transaction sees.",
                    hint=f"Name the table: {ours.full_name}.",
                    table=ours.full_name,
                )

    def _at(self, path: str) -> TableRow | None:
        try:
            key = location_key(path)
        except BadUriError:
            return None
        return next((row for row in self.by_name.values() if row.location_key == key), None)
