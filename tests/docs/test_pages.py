"""The documentation: links lead somewhere, Python blocks run, generated pages are fresh."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from builders import some

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# pages whose blocks make one program that needs nothing but a folder
PROGRAMS = [
    "docs/start/first-table.md",
    "docs/concepts/isolation.md",
    "docs/guides/many-tables.md",
    "docs/guides/mirror.md",
    "docs/guides/monitoring.md",
    "docs/reference/python.md",
]


def name(page):
    return page.relative_to(ROOT).as_posix()


def anchors(page):
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_a_page_and_a_heading(page):
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PROGRAMS)
def test_python_blocks_run_one_after_the_other(page, tmp_path):
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    printed = []
    for block in some(blocks):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        printed += done.stdout.splitlines()
    told = re.findall(r"print\(.*\)\s+# (.*)$", "\n".join(blocks), re.MULTILINE)
    assert printed == told


def test_generated_pages_are_fresh():
    done = subprocess.run(
        [sys.executable, "tools/docs.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_page_is_linked_from_another():
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in LINK.findall(page.read_text(encoding="utf-8"))
        if link.partition("#")[0]
    }
    docs = {page for page in PAGES if page.is_relative_to(ROOT / "docs")} - {
        ROOT / "docs/README.md"
    }
    assert sorted(map(name, docs - linked)) == []
