"""stable-baselines3: policies on fixed weights, saved and loaded, and short trainings."""

import tempfile

import gymnasium as gym
import numpy as np
import torch
from _values import wave
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.utils import obs_as_tensor


def main():
    found = {}
    inputs = (wave(5, 4) * 0.1).numpy()
    for kind in (PPO, A2C, DQN):
        model = kind("MlpPolicy", "CartPole-v1", seed=0, device="cpu", policy_kwargs={"net_arch": [16]})
        for i, p in enumerate(model.policy.parameters()):
            p.data.copy_(wave(*p.shape, phase=i) * 0.5)
        actions, _ = model.predict(inputs, deterministic=True)
        found[kind.__name__] = actions.tolist()
        if kind is not DQN:
            values, densities, entropy = model.policy.evaluate_actions(
                obs_as_tensor(inputs, "cpu"), torch.tensor(actions)
            )
            found[f"{kind.__name__} evaluated"] = [values.tolist(), densities.tolist(), entropy.tolist()]
        with tempfile.TemporaryDirectory() as folder:
            model.save(f"{folder}/model")
            other = kind.load(f"{folder}/model", device="cpu")
        assert np.array_equal(other.predict(inputs, deterministic=True)[0], actions)
    PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, seed=0, device="cpu").learn(128)
    A2C("MlpPolicy", "CartPole-v1", seed=0, device="cpu").learn(50)
    DQN("MlpPolicy", "CartPole-v1", seed=0, learning_starts=20, device="cpu").learn(60)
    sac = SAC("MlpPolicy", gym.make("Pendulum-v1"), seed=0, learning_starts=20, device="cpu").learn(30)
    found["sac"] = list(sac.predict(np.zeros((2, 3), np.float32))[0].shape)
    return found
