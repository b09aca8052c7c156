"""The steps of the demo; each says what it did, with figures, and which command does the same."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

import pyarrow.compute as pc
from orders import LEGACY_DAYS, PER_DAY, legacy_refusal, orders_of, totals_of, write_legacy
from spark_reader import DemoSpark

import deltasql
from readers import READERS, Count, MissingError, Read

_SECONDS = 30.0
# a commit of the legacy history and one of ours
_FLIPPED, _DELETED = 3, LEGACY_DAYS + 2


@dataclass(slots=True)
class Story:
    """One run in a fresh folder; `shown` is the folder as the user named it."""

    home: Path
    shown: Path
    catalog: deltasql.Catalog
    spark: DemoSpark
    _steps: int = field(default=0)

    @classmethod
    @contextmanager
    def begin(cls, home: Path, shown: Path, jars: str | None) -> Iterator[Self]:
        """Open what all steps need."""
        with (
            deltasql.connect(f"deltasql://sqlite/{home}/catalog.db") as catalog,
            DemoSpark.start(jars) as spark,
        ):
            yield cls(home, shown, catalog, spark)

    def tell(self) -> list[dict[str, Any]]:
        """Go through all steps and return what the readers say at the end."""
        self._legacy()
        self._import()
        self._cut_over()
        orders = self._commit()
        self._damage_and_repair(orders)
        self._step("Everybody reads the same rows: SQL, and the others from the log.")
        return self._read_back(orders)

    def tell_next(self) -> None:
        """Say what to try now."""
        print("\nTry next:")
        uri = f"deltasql://sqlite/{self.shown}/catalog.db"
        print(f"  export DELTASQL_URI={uri}")
        for words in ("tables", "history orders", "show orders", "mirror status", "doctor"):
            print(f"  deltasql {words}")

    def _legacy(self) -> None:
        version = write_legacy(self.home / "orders")
        self._step(
            f"deltalake wrote a table: {LEGACY_DAYS} days of {PER_DAY} orders, one day deleted, "
            f"versions 0 to {version}, a checkpoint.",
        )

    def _import(self) -> None:
        source = f"{self.shown}/orders"
        begun = time.monotonic()
        done = self.catalog.import_table(
            str(self.home / "orders"), "orders", engine=self.spark.engine
        )
        seconds = time.monotonic() - begun
        is_equal = done.validation is not None and done.validation.is_equal
        counts = done.counts
        self._step(
            f"Imported on {done.engine} in {seconds:.1f} s: {counts.versions} versions, "
            f"{counts.adds} adds and {counts.removes} removes; compared with the log at every "
            f"version: {'equal' if is_equal else 'different'}.",
            f"import {source} deltasql://sqlite/{self.shown}/catalog.db",
        )
        if self.spark.note:
            print(f"   ({self.spark.note})")

    def _cut_over(self) -> None:
        done = self.catalog.cutover("orders")
        self._step(
            f"Cut over: SQL won version {done.version} of the log and takes commits now.",
            "cutover orders",
        )
        refusal = legacy_refusal(self.home / "orders")
        if not refusal:
            raise SystemExit("deltalake wrote to a table that was taken over.")
        print(f"   deltalake, asked to append: {refusal}")

    def _commit(self) -> deltasql.Table:
        batch = orders_of(LEGACY_DAYS)
        totals = self.catalog.create_table(
            "totals", location=str(self.home / "totals"), schema=totals_of(batch).schema
        )
        with self.catalog.transaction(operation="LOAD") as transaction:
            transaction.table("orders").append(batch)
            transaction.table("totals").append(totals_of(batch))
        orders = self.catalog.table("orders")
        last = orders.append(orders_of(LEGACY_DAYS + 1))
        for table in (orders, totals):
            table.wait_mirrored(timeout=_SECONDS)
        self._step(
            f"One transaction: orders@{last - 1} and totals@{totals.version}; then orders@{last}. "
            "The log has them all.",
            "history orders",
        )
        return orders

    def _damage_and_repair(self, orders: deltasql.Table) -> None:
        log = self.home / "orders/_delta_log"
        flipped, deleted = (log / f"{version:020}.json" for version in (_FLIPPED, _DELETED))
        payload = bytearray(flipped.read_bytes())
        payload[len(payload) // 2] ^= 1
        flipped.write_bytes(payload)
        deleted.unlink()
        found = self.catalog.mirror.verify("orders")
        self._step(
            f"Damaged the log: a bit of version {_FLIPPED} flipped, version {_DELETED} deleted; "
            f"verify finds {len(found)} faults.",
            "mirror verify orders",
        )
        for one in found:
            print(f"   {one.difference}: {one.key}")
        self.catalog.mirror.repair("orders", replace=True)
        left = self.catalog.mirror.verify("orders")
        self._step(
            f"Repaired from SQL, byte for byte; verify finds {len(left)} faults.",
            "mirror repair orders --replace",
        )
        if left:
            raise SystemExit(f"{left[0].key} is still damaged.")
        orders.refresh()

    def _read_back(self, orders: deltasql.Table) -> list[dict[str, Any]]:
        rows = orders.scan(columns=["amount"]).to_arrow()
        truth: Count = rows.num_rows, pc.sum(rows["amount"]).as_py()
        found: list[dict[str, Any]] = [_row("deltasql", truth, "truth")]
        readers: dict[str, Read] = {**READERS, "spark": self.spark.read}
        for name, read in readers.items():
            try:
                count = read(str(self.home / "orders"))
            except MissingError as error:
                found.append({"reader": name, "verdict": str(error)})
                continue
            found.append(_row(name, count, "equal" if count == truth else "different"))
        return found

    def _step(self, text: str, same: str | None = None) -> None:
        self._steps += 1
        print(f"\n{self._steps}. {text}", flush=True)
        if same is not None:
            print(f"   $ deltasql {same}")


def _row(reader: str, count: tuple[int, Decimal], verdict: str) -> dict[str, Any]:
    return {"reader": reader, "rows": count[0], "sum": count[1], "verdict": verdict}
