"""torch-geometric without sparse tensors: layers on a graph of edges, pooling, batches and a short training."""

import torch
from _values import fill, total, wave
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import (
    GATConv,
    GCNConv,
    GINConv,
    GraphConv,
    SAGEConv,
    TransformerConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.utils import add_self_loops, degree, softmax, to_undirected


def main():
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 5, 5]])
    edges, found = to_undirected(edges), {}
    x = wave(6, 4)
    nn = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    layers = {
        "gcn": GCNConv(4, 8),
        "gat": GATConv(4, 4, heads=2),
        "sage": SAGEConv(4, 8),
        "gin": GINConv(nn),
        "graph": GraphConv(4, 8),
        "transformer": TransformerConv(4, 4, heads=2),
    }
    for name, layer in layers.items():
        made = fill(layer, 0.5)(x, edges)
        made.square().sum().backward()
        grads = sum(total(p.grad) for p in layer.parameters() if p.grad is not None)
        found[name] = [made.tolist(), grads]
    found["degree"] = degree(edges[0]).tolist()
    found["loops"] = list(add_self_loops(edges)[0].shape)
    found["softmax"] = softmax(wave(edges.shape[1]), edges[1]).tolist()
    graphs = [Data(x=x + i, edge_index=edges, y=torch.tensor([i % 2])) for i in range(4)]
    (batch,) = DataLoader(graphs, batch_size=4)
    found["pooled"] = [
        pool(batch.x, batch.batch).tolist() for pool in (global_mean_pool, global_add_pool, global_max_pool)
    ]
    found["batch"] = [batch.num_graphs, batch.num_nodes, batch.num_edges, batch.ptr.tolist()]
    first, last = fill(GCNConv(4, 8), 0.5), fill(torch.nn.Linear(8, 2), 0.5)
    optimizer, losses = torch.optim.Adam([*first.parameters(), *last.parameters()], lr=0.05), []
    for _ in range(10):
        optimizer.zero_grad()
        logits = last(global_mean_pool(first(batch.x, batch.edge_index).relu(), batch.batch))
        loss = torch.nn.functional.cross_entropy(logits, batch.y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    found["losses"] = losses
    return found
