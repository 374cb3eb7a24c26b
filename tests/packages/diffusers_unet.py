"""diffusers: a U-Net, an autoencoder and schedulers, a pipeline that denoises, saved and loaded."""

import tempfile

import torch
from _values import fill, total, wave
from diffusers import (
    AutoencoderKL,
    DDIMPipeline,
    DDIMScheduler,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    UNet2DConditionModel,
    UNet2DModel,
)


def main():
    found = {}
    sizes = {"sample_size": 16, "block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4}
    unet = fill(
        UNet2DModel(
            **sizes, down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D")
        )
    )
    noise = wave(2, 3, 16, 16, step=0.05)
    out = unet(noise, torch.tensor([3, 7])).sample
    out.square().mean().backward()
    found["unet"] = [out.flatten()[::31].tolist(), sum(total(p.grad) for p in unet.parameters())]

    text = UNet2DConditionModel(
        **sizes,
        cross_attention_dim=8,
        attention_head_dim=4,
        in_channels=4,
        out_channels=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )
    found["text"] = fill(text)(wave(1, 4, 16, 16), 5, wave(1, 3, 8)).sample.flatten()[::31].tolist()

    coder = fill(
        AutoencoderKL(
            block_out_channels=(8, 16),
            norm_num_groups=4,
            latent_channels=4,
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
        )
    )
    latent = coder.encode(noise).latent_dist.mode()
    found["coder"] = [latent.flatten()[::11].tolist(), coder.decode(latent).sample.flatten()[::31].tolist()]

    for kind in (DDPMScheduler, DDIMScheduler, DPMSolverMultistepScheduler, EulerDiscreteScheduler):
        schedule = kind()
        schedule.set_timesteps(5)
        x = schedule.add_noise(noise[:1], noise[1:], schedule.timesteps[:1])
        for t in schedule.timesteps:
            step = {} if kind is not DDPMScheduler else {"generator": None}
            if kind is DDPMScheduler and t > 0:
                continue
            x = schedule.step(0.1 * schedule.scale_model_input(x, t), t, x, **step).prev_sample
        found[kind.__name__] = x.flatten()[::31].tolist()

    pipeline = DDIMPipeline(unet, DDIMScheduler())
    pipeline.set_progress_bar_config(disable=True)
    assert pipeline(batch_size=1, num_inference_steps=3, output_type="np").images.shape == (1, 16, 16, 3)
    with tempfile.TemporaryDirectory() as folder:
        pipeline.save_pretrained(folder)
        again = DDIMPipeline.from_pretrained(folder).unet.state_dict()
    found["again"] = all(torch.equal(value, again[key]) for key, value in unet.state_dict().items())
    return found
