"""Import every module of the package with warnings as errors, as a new Python might object."""

import importlib
import pkgutil
import sys
import warnings

import deltasql


def main() -> int:
    warnings.simplefilter("error")
    names = [one.name for one in pkgutil.walk_packages(deltasql.__path__, "deltasql.")]
    for name in names:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    print(f"{len(names)} modules imported by Python {sys.version.split()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
