"""Opening what the synthetic engine serves; see capi/control/controltest."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

from goagnes import _native, _tasks


class Loader:
    """A synthetic loader: minibatch i has x full of i (float32), y full of the epoch, n_id 0, 1, 2, …"""

    def __init__(self, **settings: Any) -> None:
        self.store: int = _tasks.run("open", {"path": "any"})["store"]
        self.handle: int = _tasks.run("loader", {"store": self.store, **settings})["loader"]

    def begin(self) -> int:
        return _native.call("BeginEpoch", self.handle)

    def raw(self) -> Iterator[tuple[Any, ...]]:
        """The minibatches of the next epoch as the data plane gives them; keeps none of them."""
        epoch = self.begin()
        while True:
            raw = _native.next_batch(self.handle, epoch)
            if raw is None:
                return
            yield raw
            del raw

    def pool(self) -> dict[str, int]:
        """Counters of the pool of slabs."""
        return json.loads(_native.call("DescribeLoader", self.handle, "stats"))["pool"]

    def close(self) -> None:
        _native.call("CloseStore", self.store)


def raises(kind: type[BaseException], part: str, function: Any, *args: Any, **kwargs: Any) -> BaseException:
    """Calls function, which must raise kind with part in its text."""
    try:
        result = function(*args, **kwargs)
    except kind as error:
        assert part in str(error), f"{error!r} has no {part!r}"
        return error
    raise AssertionError(f"{function} returned {result!r}; {kind.__name__} expected")


def balanced() -> None:
    """All tensors and exported views are gone."""
    counts = _native.counters()
    assert counts["tensors_made"] == counts["tensors_freed"] > 0, counts
    assert counts["exports_made"] == counts["exports_freed"], counts


def interrupt_after(seconds: float) -> list[float]:
    """Sends this process SIGINT after some seconds; the list gets the time when."""
    import os
    import signal

    sent: list[float] = []

    def send() -> None:
        time.sleep(seconds)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=send, daemon=True).start()
    return sent
