"""The old path of `boundcheck.numerics.bilevel.closed_forms`, with its old names, kept for one release."""

from boundcheck.numerics.bilevel.closed_forms import ClosedForms as Known
from boundcheck.numerics.bilevel.closed_forms import Region
from boundcheck.numerics.bilevel.closed_forms import closed_form as upper

__all__ = ["Known", "Region", "upper"]
