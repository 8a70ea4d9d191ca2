"""Notebooks: those of the docs run, and the package behaves in a kernel as in a program.

A real ipykernel runs each, through nbclient and jupyter_client.
"""

from __future__ import annotations

import importlib.util
import json
import re
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("nbclient") is None or importlib.util.find_spec("ipykernel") is None,
    reason="nbclient or ipykernel is not installed",
)
NOTEBOOKS = Path(__file__).resolve().parents[2] / "docs" / "notebooks"

# Memory that fifty unfinished epochs may leave: the interpreter's and the allocators' own, not a minibatch each.
ALLOWED_RSS = 24 << 20


@pytest.mark.parametrize("name", sorted(path.name for path in NOTEBOOKS.glob("*.ipynb")))
def test_notebook_runs(name, tmp_path):
    import nbformat
    from nbclient import NotebookClient

    text = (NOTEBOOKS / name).read_text()
    notebook = nbformat.reads(text, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None, "committed without outputs"
            compile(cell.source, name, "exec")
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("text/html" in getattr(output, "data", {}) for output in shown)
    assert not any(output.output_type == "error" for output in shown)
    assert list(tmp_path.iterdir()) == []


class Kernel:
    """A running kernel."""

    def __init__(self):
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(kernel_name="python3")

    def begin(self, code):
        return self.client.execute(code)

    def outputs(self, request, until=None):
        """Streams and the error's name of a request; ``until`` ends early at a text on stdout."""
        streams, deadline = {"stdout": "", "stderr": ""}, time.monotonic() + 120
        while time.monotonic() < deadline:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                streams[content["name"]] += content["text"]
            elif kind == "status" and content["execution_state"] == "idle":
                return streams, self.error(request)
            if until is not None and until in streams["stdout"]:
                return streams, ""
        raise TimeoutError("the kernel does not answer")

    def error(self, request):
        """The exception's name in the reply to a request; empty where there was none."""
        while True:
            reply = self.client.get_shell_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == request:
                return reply["content"].get("ename", "")

    def run(self, code):
        return self.outputs(self.begin(code))

    def say(self, code):
        streams, error = self.run(code)
        assert error == "", (error, streams)
        return streams["stdout"]

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(store_path):
    kernel = Kernel()
    kernel.say(f"import goagnes as ga\nstore = ga.open({str(store_path)!r}, memory='32MiB')")
    yield kernel
    kernel.close()


def test_progress_and_warnings_are_in_the_notebook(kernel, tmp_path):
    """On the kernel's own streams: a bar with carriage returns, and warnings."""
    streams, error = kernel.run(
        f"ga.generate({str(tmp_path / 's')!r}, num_nodes=30000, avg_degree=10, num_features=32, num_classes=4).close()"
    )
    assert error == "" and "\r" in streams["stderr"] and "%" in streams["stderr"]
    streams, error = kernel.run("store.set_split('again', [1, 1])")
    assert error == "" and "repeat a node" in streams["stderr"]


def test_interrupted_epoch(kernel):
    """Interrupting the kernel within an epoch is KeyboardInterrupt; kernel, store and loader go on."""
    request = kernel.begin(
        "import time\n"
        "loader = ga.NeighborLoader(store, [4, 4], batch_size=1, seed=3, output='numpy')\n"
        "while True:\n"
        "    for number, batch in enumerate(loader):\n"
        "        if number == 5: print('under way', flush=True)\n"
    )
    kernel.outputs(request, until="under way")
    kernel.manager.interrupt_kernel()
    _, error = kernel.outputs(request)
    assert error == "KeyboardInterrupt"
    assert kernel.say("print(sum(1 for batch in loader), store.num_nodes)").split() == ["300", "300"]
    kernel.say("loader.close(); store.close()")


def test_a_cell_run_again_and_again(kernel):
    """Fifty unfinished epochs of fifty loaders leave memory, threads and handles as they were."""
    cell = (
        "loader = ga.NeighborLoader(store, [10, 10], batch_size=40, output='numpy')\nfor batch in loader:\n    break\n"
    )
    measure = (
        "import gc, json, re\n"
        "from goagnes import _native\n"
        "gc.collect()\n"
        "status = open('/proc/self/status').read()\n"
        "print(json.dumps({name: int(re.search(name + r':\\s+(\\d+)', status)[1]) for name in ('VmRSS', 'Threads')}\n"
        "                 | {'handles': _native.open_handles()}))\n"
    )
    for _ in range(5):  # the library's threads and the allocators' first memory
        kernel.say(cell)
    before = json.loads(kernel.say(measure))
    for _ in range(50):
        kernel.say(cell)
    after = json.loads(kernel.say(measure))
    assert after["handles"] <= before["handles"] == 2  # the store, and the loader that the cell's name holds
    assert after["VmRSS"] * 1024 <= before["VmRSS"] * 1024 + ALLOWED_RSS, (before, after)
    # Go keeps threads that waited in the system; it makes no more of them than run at a time.
    assert after["Threads"] <= before["Threads"] + 8, (before, after)


def test_html_in_the_kernel(kernel):
    request = kernel.begin("store")
    html = ""
    while not html:
        message = kernel.client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") == request and message["msg_type"] == "execute_result":
            html = message["content"]["data"]["text/html"]
    assert re.search(r"<th[^>]*>nodes</th><td[^>]*>300</td>", html)
