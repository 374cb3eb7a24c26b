"""`python -m rgrad`: runs a program written for PyTorch.

    python -m rgrad script.py args...
    python -m rgrad -m package.module args...
    python -m rgrad -c code args...
"""

from __future__ import annotations

import importlib.machinery
import os
import runpy
import sys
import types

_USAGE = "usage: python -m rgrad (script.py | -m module | -c code) [args...]"


def _as_main(code: types.CodeType, file: str | None) -> None:
    """Runs code as the program: in a persistent module `__main__`, which pickles and child processes refer to."""
    main = types.ModuleType("__main__")
    names = vars(main)
    names["__builtins__"] = __builtins__
    if file is not None:
        names["__file__"] = file
        names["__loader__"] = importlib.machinery.SourceFileLoader("__main__", file)
    sys.modules["__main__"] = main
    exec(code, names)


def main(arguments: list[str]) -> None:
    """Opens the door and runs the program given by the arguments."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__ if arguments else _USAGE, file=sys.stdout if arguments else sys.stderr)
        sys.exit(0 if arguments else 2)
    kind, *rest = arguments
    if kind in ("-m", "-c") and not rest:
        sys.exit(f"Argument expected for the {kind} option\n{_USAGE}")
    if kind.startswith("-") and kind not in ("-m", "-c"):
        print(f"unknown option {kind}\n{_USAGE}", file=sys.stderr)
        sys.exit(2)

    import rgrad.as_torch  # noqa: F401

    # `python -m` has prepended the current directory to the path, as required for a module and for code.
    if kind == "-m":
        sys.argv[:] = [rest[0], *rest[1:]]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv[:] = ["-c", *rest[1:]]
        _as_main(compile(rest[0], "<string>", "exec"), None)
    elif os.path.isdir(kind) or kind.endswith((".zip", ".pyz")):
        sys.argv[:] = arguments
        runpy.run_path(kind, run_name="__main__")
    else:
        if not os.path.exists(kind):
            sys.exit(f"can't open file {kind!r}: no such file")
        sys.argv[:] = arguments
        if not sys.flags.safe_path:
            sys.path[0] = os.path.dirname(os.path.realpath(kind))
        # Python makes the path of a script absolute, so that it still holds when the program changes directory.
        path = os.path.abspath(kind)
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec")
        _as_main(code, path)


if __name__ == "__main__":
    main(sys.argv[1:])
