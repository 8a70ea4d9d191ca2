"""Writes pyg.json: known answers of PyTorch Geometric for the tests of package nn.

Run with torch and torch_geometric installed: python pyg.py > pyg.json
Everything is computed in float64. Weights are listed in the order and
orientation of nn.Model.Values: (inputs, outputs), layer by layer.
"""

import itertools
import json
import sys

import torch
import torch_geometric
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

NODES, EDGES, INPUTS, HIDDEN, CLASSES, STEPS = 12, 40, 5, 6, 3, 5
HEADS, OUTPUT_HEADS, RESIDUAL_LAYERS = 2, 3, 3


def weights(kind, convs, read):
    """Lists the parameters, or their gradients, as the Go model does."""
    out = []
    for conv in convs:
        if kind == "gcn":
            parts = [read(conv.lin.weight).T, read(conv.bias)]
        elif kind == "gat":
            parts = [read(conv.lin.weight).T, read(conv.att_src), read(conv.att_dst)]
            parts += [read(conv.res.weight).T] if conv.res is not None else []
            parts += [read(conv.bias)]
        else:
            parts = [read(conv.lin_l.weight).T, read(conv.lin_r.weight).T, read(conv.lin_l.bias)]
        for part in parts:
            out += part.reshape(-1).tolist()
    return out


def gat(layers):
    """Convolutions of GAT, one with linear skips: heads side by side, averaged in the last."""
    last = layers - 1
    dims = [INPUTS] + [HIDDEN] * last + [CLASSES]
    for i, (a, b) in enumerate(itertools.pairwise(dims)):
        heads = OUTPUT_HEADS if i == last else HEADS
        yield GATConv(a, b if i == last else b // HEADS, heads, concat=i < last, residual=layers == RESIDUAL_LAYERS)


def case(kind, layers):
    torch.manual_seed(layers)
    edge_index = torch.randint(0, NODES - 1, (2, EDGES))  # the last node is isolated
    edge_index[:, 0:2] = 3  # a self-loop, twice
    edge_index[:, 2] = 5  # a self-loop
    edge_index[:, 4] = edge_index[:, 3]  # a repeated edge
    x = torch.randn(NODES, INPUTS, dtype=torch.float64)
    y = torch.randint(0, CLASSES, (NODES,))
    y[4] = -1
    dims = [INPUTS] + [HIDDEN] * (layers - 1) + [CLASSES]
    make = GCNConv if kind == "gcn" else SAGEConv
    convs = gat(layers) if kind == "gat" else (make(a, b) for a, b in itertools.pairwise(dims))
    convs = torch.nn.ModuleList(convs).double()
    for conv in convs:
        for p in conv.parameters():
            torch.nn.init.uniform_(p, -0.7, 0.7)

    def forward():
        h = x
        for i, conv in enumerate(convs):
            h = conv(h, edge_index)
            if i < layers - 1:
                h = torch.nn.functional.elu(h) if kind == "gat" else h.relu()
        return h

    answer = {"kind": kind, "layers": layers, "nodes": NODES, "inputs": INPUTS, "hidden": HIDDEN, "classes": CLASSES}
    if kind == "gat":
        answer |= {"heads": HEADS, "output_heads": OUTPUT_HEADS, "residual": layers == RESIDUAL_LAYERS}
    answer |= {"edges": edge_index.tolist(), "x": x.reshape(-1).tolist(), "y": y.tolist()}
    answer["weights"] = weights(kind, convs, lambda p: p.detach())
    optimizer = torch.optim.Adam(convs.parameters(), lr=0.01, weight_decay=5e-3)
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = forward()
        loss = torch.nn.functional.cross_entropy(logits, y, ignore_index=-1)
        loss.backward()
        if step == 0:
            answer |= {"logits": logits.detach().reshape(-1).tolist(), "loss": loss.item()}
            answer["gradient"] = weights(kind, convs, lambda p: p.grad)
        optimizer.step()
    answer |= {"steps": STEPS, "lr": 0.01, "weight_decay": 5e-3, "trained": weights(kind, convs, lambda p: p.detach())}
    return answer


def rounded(value):
    """Keeps 9 digits: more than float32 holds."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return value


document = {
    "torch": torch.__version__.split("+")[0],
    "torch_geometric": torch_geometric.__version__,
    "cases": [{k: rounded(v) for k, v in case(kind, n).items()} for kind in ("gcn", "sage", "gat") for n in (1, 2, 3)],
}
json.dump(document, sys.stdout, separators=(",", ":"))
sys.stdout.write("\n")
