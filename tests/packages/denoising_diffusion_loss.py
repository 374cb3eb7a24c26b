"""denoising-diffusion-pytorch: a U-Net, the losses of a diffusion at chosen times, and samples."""

import torch
from _values import fill, total, wave
from denoising_diffusion_pytorch import GaussianDiffusion, GaussianDiffusion1D, Unet, Unet1D


def main():
    found = {}
    net = fill(Unet(dim=8, dim_mults=(1, 2), flash_attn=False, attn_dim_head=8, attn_heads=2))
    x, noise, times = wave(2, 3, 16, 16, step=0.03), wave(2, 3, 16, 16, step=0.7), torch.tensor([3, 7])
    found["net"] = net(x, times)[0, 0].tolist()
    for objective in ("pred_noise", "pred_x0", "pred_v"):
        diffusion = GaussianDiffusion(net, image_size=16, timesteps=10, sampling_timesteps=4, objective=objective)
        net.zero_grad()
        loss = diffusion.p_losses(x, times, noise=noise)
        loss.backward()
        found[objective] = [loss.item(), sum(total(p.grad) for p in net.parameters() if p.grad is not None)]
    assert diffusion.sample(batch_size=1).shape == (1, 3, 16, 16)
    line = fill(Unet1D(dim=8, dim_mults=(1, 2), channels=2, attn_dim_head=8, attn_heads=2))
    diffusion = GaussianDiffusion1D(line, seq_length=16, timesteps=10, objective="pred_v")
    found["line"] = diffusion.p_losses(wave(2, 2, 16), times, noise=wave(2, 2, 16, phase=1.0)).item()
    return found
