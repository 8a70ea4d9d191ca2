"""What importing leaves as it was, and when it refuses."""

from __future__ import annotations

import subprocess
import sys


def _run(code: str, status: int = 0) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done
    return done.stdout + done.stderr


def check_nothing_else_changes() -> None:
    """No hook in the collector, no directory change, no dlopen flags, no signal handlers, no heavy imports."""
    _run(
        "import gc, os, signal, sys\n"
        "def state(): return (list(gc.callbacks), os.getcwd(), sys.getdlopenflags(), "
        "[signal.getsignal(s) for s in range(1, 32)], gc.isenabled(), gc.get_threshold())\n"
        "before = state()\n"
        "import goagnes\n"
        "assert state() == before\n"
        "assert not {'torch', 'torch_geometric', 'pandas', 'scipy'} & set(sys.modules)\n"
    )


def check_subnormals_survive() -> None:
    """The link brings no fast-math start-up code that flushes subnormals to zero."""
    _run(
        "import numpy\n"
        "import goagnes\n"
        "smallest = 5e-324\n"
        "assert smallest / 2 == 0 and smallest != 0 and smallest * 3 / 3 == smallest\n"
        "tiny = numpy.array([1e-40], numpy.float32)\n"
        "assert (tiny * numpy.float32(1) != 0).all()\n"
        "import threading\n"
        "results = []\n"
        "t = threading.Thread(target=lambda: results.append(2.5e-310 * 1.0)); t.start(); t.join()\n"
        "assert results == [2.5e-310]\n"
    )


def check_version_mismatch() -> None:
    text = _run(
        "import importlib.metadata\n"
        "importlib.metadata.version = lambda name: '0.0.0'\n"
        "try:\n    import goagnes\n"
        "except ImportError as error: print(error)\n"
    )
    assert "the package is version 0.0.0, its native library " in text


def check_subinterpreter_refused() -> None:
    text = _run(
        "try:\n    import _xxsubinterpreters as interpreters\n"
        "except ImportError:\n    import _interpreters as interpreters\n"
        "import sys\n"
        "code = 'import sys; sys.path[:] = ' + repr(sys.path) + '''\n"
        "try:\n    import goagnes._native\n"
        "except ImportError as error: print('refused:', error)\n"
        "else: print('imported')'''\n"
        "i = interpreters.create()\n"
        "print(interpreters.run_string(i, 'import sys; ' + code) or '')\n"
    )
    assert "refused:" in text, text
    assert "imported" not in text, text


def check_modules_share_one_library() -> None:
    import goagnes
    from goagnes import _native

    assert _native._data.__file__ == _native._control.__file__
    assert _native._control.bind_Version() == goagnes.__version__
    # Of gopy's own surface nothing is left: no handle classes, no collector hook.
    names = {name for name in dir(_native._control) if not name.startswith(("bind_", "__"))}
    assert names == set(), names


def check_exit_while_working() -> None:
    """Leaving the interpreter with open loaders, a waiting thread and views alive is clean."""
    text = _run(
        "import threading, time\n"
        "from goagnes import _native\n"
        "from goagnes._batch import numpy_batch\n"
        "from synthetic import Loader\n"
        "loader = Loader(batches=3, block_at=1)\n"
        "raws = loader.raw()\n"
        "batch = numpy_batch(next(raws))\n"
        "def wait():\n"
        "    try: next(raws)\n"
        "    except Exception: pass  # the loader is closed before the interpreter ends\n"
        "threading.Thread(target=wait, daemon=True).start()\n"
        "time.sleep(0.1)\n"
    )
    assert text == "", text
