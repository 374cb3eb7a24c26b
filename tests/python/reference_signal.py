"""Windows and Sobol points that are compared with PyTorch's; see `reference`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from reference import Case, write

WINDOWS: dict[str, list[dict[str, Any]]] = {
    "bartlett": [{}],
    "blackman": [{}],
    "cosine": [{}],
    "exponential": [{}, {"tau": 2.5}, {"center": 2.0, "sym": False}],
    "gaussian": [{}, {"std": 1.7}],
    "general_cosine": [{"a": [0.4, 0.3, 0.2]}],
    "general_hamming": [{}, {"alpha": 0.7}],
    "hamming": [{}],
    "hann": [{}],
    "kaiser": [{}, {"beta": 0.0}, {"beta": 30.0}],
    "nuttall": [{}],
}


def _windows(name: str) -> Case:
    def case(torch: Any) -> Any:
        window = getattr(import_module(f"{torch.__name__}.signal.windows"), name)
        made = []
        for settings in WINDOWS[name]:
            for points in (0, 1, 2, 7, 8):
                for sym in (True, False) if "sym" not in settings else (False,):
                    made.append(window(points, dtype=torch.float64, **settings | {"sym": sym}))
        return made

    return case


def _points(torch: Any) -> Any:
    engine = import_module(f"{torch.__name__}.quasirandom").SobolEngine
    narrow = engine(7)
    drawn = [
        narrow.draw(5),
        narrow.draw(),
        narrow.fast_forward(1000).draw(3, dtype=torch.float64),
        narrow.quasi.clone(),
    ]
    drawn += [narrow.num_generated, narrow.reset().draw(2), repr(narrow), engine(2).draw_base2(4)]
    wide = engine(1111)
    # Sums of all coordinates, and the coordinates of the last dimensions.
    points = wide.fast_forward(12345).draw(4, dtype=torch.float64)
    return [*drawn, points.sum(1), points[:, -40:], wide.sobolstate.sum(1)[::10], wide.sobolstate[-3:]]


def _scrambled_points(torch: Any) -> Any:
    engine = import_module(f"{torch.__name__}.quasirandom").SobolEngine
    made = [
        engine(dimension, scramble=True, seed=seed) for dimension, seed in ((3, 0), (2, 123456), (2, (1 << 40) + 7))
    ]
    return [[one.shift, one.sobolstate[:, ::5], one.draw(6)] for one in made]


CASES: dict[str, Case] = {
    **{name: _windows(name) for name in WINDOWS},
    "Sobol points": _points,
    "scrambled Sobol points": _scrambled_points,
}

if __name__ == "__main__":
    write(CASES, __file__)
