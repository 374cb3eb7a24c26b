"""A policy that balances a pole on a cart, learnt by an actor and a critic.

    python examples/actor_critic.py [--small]

The cart follows the equations of Barto, Sutton and Anderson, 1983. An episode ends when the pole leans by more than 12
degrees or the cart leaves its track, or after 500 steps.
"""

from __future__ import annotations

import math
import random
from typing import Any

import common

import rgrad as torch
import rgrad.nn.functional as F  # noqa: N812
from rgrad import nn
from rgrad.distributions import Categorical

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02


class CartPole:
    """The state is the cart's position and velocity and the pole's angle and angular velocity, in SI units."""

    def reset(self) -> list[float]:
        """Begins an episode near the upright position."""
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]
        self.steps = 0
        return self.state

    def step(self, push_right: bool) -> tuple[list[float], bool]:
        """Pushes the cart for a fiftieth of a second; returns the new state and whether the episode ended."""
        x, v, angle, spin = self.state
        force = FORCE if push_right else -FORCE
        sin, cos = math.sin(angle), math.cos(angle)
        pushed = (force + POLE * HALF_LENGTH * spin**2 * sin) / (CART + POLE)
        spin_rate = (GRAVITY * sin - cos * pushed) / (HALF_LENGTH * (4 / 3 - POLE * cos**2 / (CART + POLE)))
        rate = pushed - POLE * HALF_LENGTH * spin_rate * cos / (CART + POLE)
        self.state = [x + SECONDS * v, v + SECONDS * rate, angle + SECONDS * spin, spin + SECONDS * spin_rate]
        self.steps += 1
        fallen = abs(self.state[0]) > 2.4 or abs(self.state[2]) > math.radians(12)
        return self.state, fallen or self.steps == 500


class ActorCritic(nn.Module):
    """Shares a layer between the scores of the actions and the estimate of what is still to come."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.body = nn.Linear(4, width)
        self.actor, self.critic = nn.Linear(width, 2), nn.Linear(width, 1)

    def forward(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """A state of shape (4,) to the logits of two actions and the state's value."""
        hidden = F.relu(self.body(state))
        return self.actor(hidden), self.critic(hidden)[0]


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Learns and draws; returns the steps of every episode and the figure's path."""
    args = common.options(__doc__, argv, episodes=(500, 80))
    random.seed(args.seed)
    pole, model = CartPole(), ActorCritic().to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    lengths: list[int] = []
    bar = common.Progress(range(args.episodes), unit="episode")
    for _ in bar:
        state, done = pole.reset(), False
        log_probs, values = [], []
        while not done:
            logits, value = model(torch.tensor(state, device=args.device))
            policy = Categorical(logits=logits)
            action = policy.sample()
            log_probs.append(policy.log_prob(action))
            values.append(value)
            state, done = pole.step(bool(action.item()))

        # The reward of every step is 1; returns are discounted and normalized.
        returns, ahead = [], 0.0
        for _ in log_probs:
            ahead = 1 + 0.99 * ahead
            returns.append(ahead)
        target = torch.tensor(returns[::-1], device=args.device)
        target = (target - target.mean()) / (target.std() + 1e-6)
        value = torch.stack(values)
        advantage = target - value.detach()
        loss = -(torch.stack(log_probs) * advantage).sum() + F.smooth_l1_loss(value, target, reduction="sum")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lengths.append(pole.steps)
        bar.show(steps=pole.steps)

    def draw(axes: Any) -> None:
        window = max(1, len(lengths) // 20)
        means = [sum(lengths[max(0, i - window + 1) : i + 1]) / min(window, i + 1) for i in range(len(lengths))]
        axes.plot(lengths, alpha=0.3, label="an episode")
        axes.plot(means, label=f"mean of {window}")
        axes.set(title="How long the pole stays up", xlabel="episode", ylabel="steps")
        axes.legend()

    return {"lengths": lengths, "picture": common.figure(args.out / "actor_critic.png", draw)}


if __name__ == "__main__":
    main()
