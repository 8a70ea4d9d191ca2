"""After os.fork() every entry refuses in the child, at once, and the parent goes on."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable

import numpy as np
from synthetic import Loader, balanced

import goagnes as ga
from goagnes._batch import numpy_batch


def _child(body: Callable[[], None]) -> None:
    """Runs body in a forked child that may take 10 s."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of threads at fork itself
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(10)
            body()
            status = 0
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


def _refused(function: Callable[..., object], *args: object) -> None:
    try:
        function(*args)
    except RuntimeError as error:
        assert "spawn" in str(error), error
        assert not isinstance(error, ga.Error), repr(error)
        return
    raise AssertionError(f"{function} {args} worked in a forked child")


def check_public_calls() -> None:
    def body() -> None:
        _refused(ga.open, "any")
        _refused(ga.build, "any", np.zeros((2, 1), np.int64))

    _child(body)


def check_views_in_the_child() -> None:
    """Delivered minibatches stay readable in the child; dropping them there touches nothing of the parent."""
    loader = Loader(batches=1, nodes=9)
    (raw,) = loader.raw()
    batch = numpy_batch(raw)

    def body() -> None:
        nonlocal batch, raw
        assert batch.n_id.tolist() == list(range(9))
        del batch, raw

    _child(body)
    assert batch.n_id.tolist() == list(range(9))
    del batch, raw
    loader.close()
    balanced()


def check_child_exits_normally() -> None:
    """Finalizers and exit handlers do not hang or complain in a child that exits the long way."""
    import subprocess

    code = (
        "import os, sys, warnings, goagnes\n"
        "from synthetic import Loader\n"
        "warnings.simplefilter('ignore')\n"
        "loader = Loader(batches=2); raws = loader.raw(); next(raws)\n"
        "store = goagnes.Store('any', loader.store, {'num_nodes': 1, 'num_edges': 1})\n"
        "pid = os.fork()\n"
        "if pid: sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, ""), done


def check_spawned_process_works() -> None:
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        assert pool.apply(_in_spawned) == [0, 1]


def _in_spawned() -> list[int]:
    return [raw[0] for raw in Loader(batches=2).raw()]
