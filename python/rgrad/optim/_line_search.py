"""A line search for the strong Wolfe conditions: sufficient decrease of the loss, and a sufficiently small slope.

Steps grow until they bracket a point that meets both; the bracket is then narrowed by cubic interpolation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rgrad import Tensor

DECREASE = 1e-4
CURVATURE = 0.9
LEAST_CHANGE = 1e-9
MOST_PROBES = 25


class Point(NamedTuple):
    """A point on the line: its distance, and the loss, the gradient and the slope along the line there."""

    t: Any
    loss: float
    grad: Tensor
    slope: Any


def _cubic_minimum(a: Point, b: Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """The minimum, within bounds, of the cubic that interpolates two points and their slopes."""
    low, high = bounds if bounds is not None else (min(a.t, b.t), max(a.t, b.t))
    if a.t > b.t:
        a, b = b, a
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    at = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    return min(max(at, low), high)


def strong_wolfe(
    probe: Callable[[Any], tuple[float, Tensor]],
    t: Any,
    direction: Tensor,
    loss: float,
    grad: Tensor,
    slope: Any,
) -> tuple[float, Tensor, Any, int]:
    """Searches along a direction.

    Args:
        probe: returns loss and gradient at a distance.
        t: the first distance to try.
        direction: the direction, as a flat vector.
        loss: the loss at distance 0.
        grad: the gradient at distance 0, as a flat vector.
        slope: the slope along the direction at distance 0.

    Returns:
        Loss, gradient and distance found, and the number of calls of `probe`.
    """
    start = Point(0, loss, grad.clone(), slope)
    length = direction.abs().max()

    def look(t: Any) -> Point:
        loss, grad = probe(t)
        return Point(t, loss, grad.clone(), grad.dot(direction))

    def falls_short(point: Point) -> bool:
        return point.loss > start.loss + DECREASE * point.t * start.slope

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -CURVATURE * start.slope

    # Increase the step until it brackets a minimum.
    last, here = start, look(t)
    probes, grown, done = 1, 0, False
    bracket = [start, here]
    while grown < MOST_PROBES:
        if falls_short(here) or (grown > 1 and here.loss >= last.loss):
            bracket = [last, here]
            break
        if is_flat(here):
            bracket, done = [here], True
            break
        if here.slope >= 0:
            bracket = [last, here]
            break
        bounds = here.t + 0.01 * (here.t - last.t), here.t * 10
        t = _cubic_minimum(last, here, bounds)
        last, here = here, look(t)
        probes += 1
        grown += 1
    else:
        bracket = [start, here]

    # Narrow the bracket.
    stuck = False
    low, high = (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)
    narrowed = grown
    while not done and narrowed < MOST_PROBES:
        ends = [point.t for point in bracket]
        width = max(ends) - min(ends)
        if width * length < LEAST_CHANGE:
            break
        t = _cubic_minimum(bracket[0], bracket[1])
        # A trial point too close to an end of the bracket is moved away from it, if this is the second such point in
        # a row or if it is not inside the bracket.
        margin = 0.1 * width
        if min(max(ends) - t, t - min(ends)) < margin:
            if stuck or t >= max(ends) or t <= min(ends):
                t = max(ends) - margin if abs(t - max(ends)) < abs(t - min(ends)) else min(ends) + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        here = look(t)
        probes += 1
        narrowed += 1
        if falls_short(here) or here.loss >= bracket[low].loss:
            bracket[high] = here
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
        else:
            if is_flat(here):
                done = True
            elif here.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = here
    best = bracket[low if len(bracket) > 1 else 0]
    return best.loss, best.grad, best.t, probes
