"""Examples with labels for equilibrium models: the user's own, images of MNIST, or Gaussian classes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from boundcheck.errors import InputError
from boundcheck.problems.parts.cross_entropy import one_hot
from boundcheck.problems.parts.synthetic_data import Draw

MNIST_SIZE = 5000  # as in the paper


@dataclass(frozen=True)
class Examples:
    """Inputs as rows, and their classes as rows of the identity."""

    X: Tensor
    Y: Tensor


def gaussian_examples(draw: Draw, size: int, features: int, classes: int) -> Examples:
    """Return Gaussian classes. The examples of a class have half the spread of the centres of the classes."""
    y = torch.arange(size, device="cpu") % classes
    X = draw.normal(classes, features)[y] + draw.normal(size, features) / 2
    return Examples(draw.place(X), draw.place(one_hot(y, classes)))


def mnist_examples(draw: Draw, size: int | None, **fixed: int | None) -> Examples:
    """Return `size` random training images of MNIST, with pixels in [0, 1].

    InputError if one of `fixed`, the sizes that MNIST determines, is given.
    """
    for name, value in fixed.items():
        if value is not None:
            raise InputError(f"{name} = {value} with mnist=True; MNIST fixes it, so leave {name} out")
    from boundcheck.problems.parts import datasets  # only here, because the synthetic problem needs no files

    images = datasets.mnist()
    total = len(images.train_labels)
    count = size_or_default("size", size, MNIST_SIZE)
    if count > total:
        raise InputError(f"size = {count} with mnist=True, which has {total} training images; give at most that")
    rows = torch.randperm(total, generator=draw.generator, device="cpu")[:count]
    return _images(draw, torch.from_numpy(images.train_images)[rows], torch.from_numpy(images.train_labels)[rows])


def mnist_test(draw: Draw, size: int) -> Examples:
    """Return the first `size` of the 10000 test images of MNIST."""
    from boundcheck.problems.parts import datasets

    images = datasets.mnist()
    return _images(draw, torch.from_numpy(images.test_images)[:size], torch.from_numpy(images.test_labels)[:size])


def _images(draw: Draw, pixels: Tensor, labels: Tensor) -> Examples:
    X = pixels.reshape(len(pixels), -1).to(torch.float64) / 255
    return Examples(draw.place(X), draw.place(one_hot(labels.long(), 10)))


def size_or_default(name: str, value: int | None, default: int) -> int:
    """Return a size, or its default if it is None; InputError if it is not positive."""
    if value is not None and value < 1:
        raise InputError(f"{name} = {value} is not a size; give a whole number from 1")
    return default if value is None else value
