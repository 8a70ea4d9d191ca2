"""Processes made of a process that uses the package: forked ones are refused, spawned ones work."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from world import digest, make

import goagnes as ga


def _fork(body: Callable[[], None]) -> None:
    """Runs body in a forked child, which has 20 s."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(20)
            body()
            status = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, f"the child ended with {status}"


def _refused(function: Callable[..., object], *arguments: object, **named: object) -> None:
    try:
        function(*arguments, **named)
    except RuntimeError as error:
        assert "spawn" in str(error), error
        return
    raise AssertionError(f"{function} worked in a forked child")


def check_fork_in_an_epoch(folder: Path) -> None:
    """A child forked while loaders work: every call is refused at once, what was delivered can be read."""
    path = make(folder)
    with ga.open(path, "32MiB", 2) as store:
        loader = ga.NeighborLoader(store, [5, 5], "train", batch_size=10, output="numpy", seed=1)
        want = digest(loader)
        loader.set_epoch(0)
        epoch = iter(loader)
        batch = next(epoch)
        ids = batch.n_id.copy()

        def body() -> None:
            np.testing.assert_array_equal(batch.n_id, ids)
            batch.x[:] = 0  # the child's own copy of the memory
            _refused(next, epoch)
            _refused(iter, loader)
            _refused(loader.stats)
            _refused(loader.set_epoch, 1)
            _refused(store.info)
            _refused(store.neighbors, 1)
            _refused(store.x.__getitem__, 1)
            _refused(store.verify)
            _refused(ga.open, path)
            _refused(ga.train, store)
            _refused(ga.export, store, folder / "out", [2])
            _refused(ga.build, folder / "new", np.zeros((2, 3), np.int64))
            assert len(loader) == 100 and store.num_nodes == 3000  # known without the library
            loader.close()
            store.close()  # neither touches the parent's

        for _ in range(5):
            _fork(body)
        assert batch.x.any()
        loader.set_epoch(0)
        assert digest(loader) == want


def check_forks_from_threads(folder: Path) -> None:
    """Forks while other threads are in the middle of calls: no lock of theirs keeps a child."""
    path = make(folder)
    stop = threading.Event()
    with ga.open(path, "64MiB", 2) as store:

        def work() -> None:
            while not stop.is_set():
                for batch in ga.NeighborLoader(store, [3, 3], "train", batch_size=10, output="numpy"):
                    np.from_dlpack(batch.n_id).sum()

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(15):
                _fork(lambda: (_refused(store.info), _refused(ga.open, path)))
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def spawned(path: str) -> str:
    with ga.open(path, "32MiB", 1) as store:
        return digest(ga.NeighborLoader(store, [5, 5], "train", batch_size=10, output="numpy", seed=1))


def check_multiprocessing(folder: Path) -> None:
    """Spawned workers and those of a fork server open the store by its path; forked ones are told why not."""
    path = str(make(folder))
    with ga.open(path, "32MiB", 2) as store:
        want = digest(ga.NeighborLoader(store, [5, 5], "train", batch_size=10, output="numpy", seed=1))
        for method in ("spawn", "forkserver"):
            with multiprocessing.get_context(method).Pool(2) as pool:
                assert pool.map(spawned, [path] * 4) == [want] * 4, method
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with multiprocessing.get_context("fork").Pool(2) as pool:
                try:
                    pool.map(spawned, [path])
                except RuntimeError as error:
                    assert "spawn" in str(error), error
                else:
                    raise AssertionError("a forked worker opened the store")


def check_pickling(folder: Path) -> None:
    """What holds native memory or handles is refused by name; arrays of minibatches go as arrays do."""
    path = make(folder)
    with ga.open(path, "32MiB") as store:
        loader = ga.NeighborLoader(store, [2], "train", output="numpy", seed=1)
        epoch = iter(loader)
        batch = next(epoch)
        for thing, advice in (
            (store, "goagnes.open(store.path)"),
            (loader, "num_workers=0"),
            (epoch, "cannot be pickled"),
            (batch, "views of the loader's memory"),
            (store.x, ""),
        ):
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                try:
                    pickle.dumps(thing, protocol)
                except TypeError as error:
                    assert advice in str(error), error
                else:
                    raise AssertionError(f"{thing!r} was pickled")
        copy = pickle.loads(pickle.dumps(dict(batch.items())))
        for name, array in batch.items():
            np.testing.assert_array_equal(copy[name], array)
        for error in (ga.UsageError("a"), ga.StoreError("b"), ga.InternalError("c"), ga.BudgetError("d")):
            again = pickle.loads(pickle.dumps(error))
            assert type(again) is type(error) and str(again) == str(error)


def check_torch_workers(folder: Path) -> None:
    """A DataLoader over the loader: without workers it works; with workers it says what to do. (torch)"""
    import torch

    path = make(folder)
    with ga.open(path, "64MiB") as store:
        loader = ga.NeighborLoader(store, [3, 2], "train", batch_size=100, output="torch", seed=1)

        class Batches(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(loader)

        data = torch.utils.data.DataLoader(Batches(), batch_size=None, num_workers=0)
        assert sum(batch.batch_size for batch in data) == 1000
        for method, text in (("fork", "spawn"), ("spawn", "cannot be pickled")):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                data = torch.utils.data.DataLoader(
                    Batches(), batch_size=None, num_workers=2, multiprocessing_context=method, timeout=60
                )
                try:
                    list(data)
                except (RuntimeError, TypeError, AttributeError) as error:
                    if method == "fork":
                        assert text in str(error), error
                else:
                    raise AssertionError(f"{method}: workers worked")
        assert sum(batch.batch_size for batch in loader) == 1000


def check_subinterpreters(folder: Path) -> None:
    """Refused by name, with and without a lock of their own, and the main interpreter goes on."""
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    path = make(folder)
    with ga.open(path, "32MiB", 2) as store:
        loader = ga.NeighborLoader(store, [2], "train", batch_size=10, output="numpy")
        epoch = iter(loader)
        next(epoch)
        told = folder / "told"
        code = (
            f"import sys; sys.path[:] = {sys.path!r}\n"
            "try:\n    import goagnes\n"
            "except ImportError as error: text = str(error)\n"
            "else: text = 'imported'\n"
            f"with open({str(told)!r}, 'w') as file: file.write(text)\n"
        )
        for _ in range(3):
            interpreter = interpreters.create()
            interpreters.run_string(interpreter, code)
            interpreters.destroy(interpreter)
            # numpy refuses before us where it does not know sub-interpreters.
            assert "imported" != told.read_text() != ""
            assert next(epoch).num_nodes > 0
