"""Print what a test run left out, and why, from its JUnit files."""

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET


def main(files: list[str]) -> int:
    reasons: Counter[tuple[str, str]] = Counter()
    totals: Counter[str] = Counter()
    for file in map(Path, files):
        if not file.exists():
            continue
        for case in ET.parse(file).getroot().iter("testcase"):
            kinds = {child.tag: child for child in case}
            kind = next((k for k in ("failure", "error", "skipped") if k in kinds), "passed")
            totals[kind] += 1
            if kind == "skipped":
                module = case.get("classname", "?")
                reasons[module, kinds["skipped"].get("message", "no reason given")] += 1
    print(f"{totals['passed']} passed, {totals['failure'] + totals['error']} failed, ", end="")
    print(f"{totals['skipped']} skipped")
    width = max((len(module) for module, _ in reasons), default=0)
    for (module, reason), count in sorted(reasons.items()):
        print(f"  {count:>4}  {module:<{width}}  {' '.join(reason.split())}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
