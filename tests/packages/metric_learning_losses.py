"""pytorch-metric-learning: losses, miners, distances and accuracies on the same embeddings."""

import torch
from _values import total, wave
from pytorch_metric_learning import distances, losses, miners, reducers


def main():
    labels, found = torch.arange(12) % 4, {}
    made = {
        "triplet": losses.TripletMarginLoss(margin=0.3),
        "contrastive": losses.ContrastiveLoss(),
        "ntxent": losses.NTXentLoss(),
        "supcon": losses.SupConLoss(),
        "multi": losses.MultiSimilarityLoss(),
        "circle": losses.CircleLoss(),
        "lifted": losses.LiftedStructureLoss(),
        "npairs": losses.NPairsLoss(),
        "angular": losses.AngularLoss(),
        "cosine": losses.TripletMarginLoss(distance=distances.CosineSimilarity(), reducer=reducers.MeanReducer()),
        "arcface": losses.ArcFaceLoss(4, 6),
        "proxies": losses.ProxyAnchorLoss(4, 6),
    }
    for name, loss in made.items():
        for i, p in enumerate(loss.parameters()):
            p.data.copy_(wave(*p.shape, phase=i))
        x = wave(12, 6, step=0.7).requires_grad_()
        value = loss(x, labels)
        value.backward()
        found[name] = [value.item(), total(x.grad)]
    x = wave(12, 6, step=0.7)
    pairs = miners.MultiSimilarityMiner()(x, labels)
    found["miner"] = [len(part) for part in pairs]
    found["hard"] = [part.tolist() for part in miners.BatchHardMiner()(x, labels)]
    found["distances"] = distances.LpDistance()(x).tolist()
    return found
