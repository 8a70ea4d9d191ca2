"""goagnes: graph neural network minibatches from disk, under a memory budget.

Build a store once, open it, and iterate over sampled minibatches::

    import goagnes as ga

    store = ga.build("cora.store", edge_index=edge_index, x=x, y=y, splits={"train": train_mask})
    for batch in ga.NeighborLoader(store, [10, 10], "train", batch_size=128, shuffle=True):
        ...

Names that do not start with an underscore are the public interface. Minibatches
share the loader's memory with numpy, torch and PyG; nothing is copied.

The package works in one process: after os.fork() every call in the child raises
RuntimeError; use spawn. It needs CPython 3.11 or newer with the GIL.
"""

from goagnes import _native  # first: it refuses interpreters and processes that do not fit

# isort: split
from goagnes._batch import Batch
from goagnes._build import build, generate, import_dataset
from goagnes._errors import (
    BudgetError,
    CancelledError,
    ClosedError,
    DirectIOWarning,
    DiskError,
    Error,
    InputError,
    InternalError,
    StoreError,
    UnsupportedError,
    UsageError,
)
from goagnes._export import Export, ExportEpoch, export, read_export
from goagnes._loader import NeighborLoader
from goagnes._nodes import NodeArray
from goagnes._store import Store, open, verify
from goagnes._train import train

__version__ = _native.version

__all__ = [
    "Batch",
    "BudgetError",
    "CancelledError",
    "ClosedError",
    "DirectIOWarning",
    "DiskError",
    "Error",
    "Export",
    "ExportEpoch",
    "InputError",
    "InternalError",
    "NeighborLoader",
    "NodeArray",
    "Store",
    "StoreError",
    "UnsupportedError",
    "UsageError",
    "__version__",
    "build",
    "export",
    "generate",
    "import_dataset",
    "open",
    "read_export",
    "train",
    "verify",
]
