"""torchinfo: the summary of a network."""

import torch
from torchinfo import summary


def main():
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 5)
    )
    told = summary(net, input_size=(2, 3, 8, 8), verbose=0)
    return {"text": str(told), "parameters": told.total_params, "products": told.total_mult_adds}
