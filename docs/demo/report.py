"""The demo's result as an aligned table of text, and the same as a picture."""

from __future__ import annotations

from html import escape
from typing import Any

MIB = 1 << 20


def as_text(result: dict[str, Any]) -> str:
    """The table: what is compared stands side by side."""
    settings, info = result["settings"], result["info"]
    sage, mlp, epoch = result["sage"], result["mlp"], result["epoch"]
    alone = result["alone"]["epochs"][0]
    each, each_alone = epoch["seconds"] / epoch["minibatches"], alone["seconds"] / alone["minibatches"]
    rows_bytes = epoch["nodes"] * info["num_features"] * 4
    moved = epoch["bytes_moved"]
    bound = epoch["lower_bound_bytes"]
    device = epoch["device_bytes_per_second"]
    seconds = sage["seconds"]
    total = seconds["total"]
    memory = settings["memory_bytes"]
    bandwidth = moved / epoch["seconds"]

    rows: list[tuple[str, str, str]] = []

    def add(name: str = "", value: str = "", remark: str = "") -> None:
        rows.append((name, value, remark))

    add("graph", f"{info['num_nodes'] / 1e6:g} M nodes, {info['num_edges'] / 1e6:g} M edges")
    add("data", mib(settings["data_bytes"]), f"{info['num_features']} float32 a node, 4 bytes an edge")
    add("memory", mib(memory), f"1/{settings['data_bytes'] / memory:.1f} of the data")
    add(
        "minibatches",
        f"{epoch['minibatches']:,} an epoch",
        f"of {settings['batch_size']} seeds, fanout {settings['fanout']}",
    )
    add()
    add("accuracy, GraphSAGE", percent(sage["test_accuracy"]), f"test split, {len(sage['epochs'])} epochs")
    add("accuracy, no edges", percent(mlp["test_accuracy"]), "the same training of a perceptron")
    add("peak memory, training", mib(sage["process"]["peak_bytes"]), f"budget {mib(memory)}, and the program itself")
    add()
    add("epoch, Python loader", f"{epoch['seconds']:.1f} s", f"{1000 * each:.1f} ms a minibatch")
    add("without hyperbatches", f"{1000 * each_alone:,.0f} ms", f"a minibatch: {each_alone / each:.0f} x as long")
    add("bytes moved", mib(moved), f"{moved / bound:.1f} x the pages needed, each once ({mib(bound)})")
    add("rows delivered", mib(rows_bytes), f"{rows_bytes / bound:.1f} x the same")
    add("bandwidth", rate(bandwidth), share_of_device(bandwidth, device))
    add()
    add("training in Go", f"{total:.1f} s", f"{len(sage['epochs'])} epochs with validation, test at the end")
    for name, key in (
        ("  waiting for data", "wait_for_data"),
        ("  forward", "forward"),
        ("  backward", "backward"),
        ("  optimizer", "optimizer"),
        ("  evaluation", "evaluation"),
    ):
        add(name, f"{seconds[key]:.1f} s", bar(seconds[key] / total))
    left, middle = (max(len(row[i]) for row in rows) for i in (0, 1))
    return "\n".join(f"{a:<{left}}  {b:>{middle}}  {c}".rstrip() for a, b, c in rows)


def mib(n: float) -> str:
    return f"{n / MIB:,.0f} MiB"


def rate(n: float) -> str:
    return f"{n / 1e6:,.0f} MB/s"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def share_of_device(bandwidth: float, device: float | None) -> str:
    if device is None:
        return "no direct I/O on this file system"
    return f"{percent(bandwidth / device)} of the device's {rate(device)}"


def bar(share: float, width: int = 30) -> str:
    return "#" * round(width * share)


def as_svg(text: str) -> str:
    """The text as a picture, in a fixed-width face."""
    lines = text.split("\n")
    width, height = 8.4 * max(map(len, lines)) + 32, 20 * len(lines) + 24
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}"',
        ' font-family="monospace" font-size="14">',
        f'<rect width="{width:.0f}" height="{height}" rx="6" fill="#f6f8fa"/>',
    ]
    for i, line in enumerate(lines):
        out.append(f'<text x="16" y="{20 * i + 28}" xml:space="preserve" fill="#24292f">{escape(line)}</text>')
    return "\n".join([*out, "</svg>", ""])
