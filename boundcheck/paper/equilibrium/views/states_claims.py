"""Compare our state maps with the paper's description of its picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from boundcheck.engine.experiment import Claim, Outcome, Settings
from boundcheck.paper.equilibrium.views import states_figures

CAPTION = "caption of Figure 4"
INVISIBLE_DISTANCE = 0.05  # a smaller ‖w_t − w‖/‖w‖ cannot be seen in a picture


def outcome(settings: Settings, result: Mapping[str, Any], data: Mapping[str, Any]) -> Outcome:
    figure = states_figures.maps(result["maps"], result["images"], settings["digits"])
    return Outcome(claims(settings, result), data, {"states": figure}, notes(settings, result))


def claims(settings: Settings, result: Mapping[str, Any]) -> list[Claim]:
    shape = result["maps"].shape[2:]
    size = "×".join(str(n) for n in shape)
    black = float(np.abs(result["maps"][:, 0]).max())
    distance = result["distance"][:, -1]
    distances = ", ".join(f"{x:.2e} of ‖w‖ for the {d}" for x, d in zip(distance, settings["digits"], strict=True))
    moves = result["still_moves"].max()
    why = f"w after {settings['long']} more iterations, which still moves by {moves:.1e} of its norm"
    return [
        Claim("states of an image", CAPTION, "10×14×14", size, "", "", shape == (10, 14, 14)),
        Claim("states start at 0 (black images)", CAPTION, "yes", f"largest entry {black:g}", "", "", black == 0),
        Claim(
            f"{settings['t']} iterations approximately reach the fixed point", CAPTION, "yes",
            f"‖w_{settings['t']} − w‖ is {distances}", "", why, bool((distance < INVISIBLE_DISTANCE).all()),
        ),
    ]  # fmt: skip


def notes(settings: Settings, result: Mapping[str, Any]) -> list[str]:
    part = " (the paper: 5000 images, 1500 steps)" if settings["quick"] else ""
    ended = f"; the training ended early: {result['why']}" if result["why"] else ""
    return [
        f"trained by FP with projection on {settings['size']} images for {settings['steps']} steps of size "
        f"{settings['step_size']:g}{part}: test accuracy {100 * result['accuracy'][-1]:.1f} %, "
        f"‖c(K)‖ = {result['norm'][-1]:.4f}{ended}",
        "shown are the first test images of each digit; the paper does not say which it took",
        "black is 0, blue negative, red positive; a row for each filter, a column for each w_0, w_1, …",
    ]
