"""The single L of Ji et al., which bounds the second derivatives of ℓ and E.

Their lemma assumes this bound everywhere. Gradient descent with α ≤ 1/L stays in B(w*, r_0), where ∂₁Φ contracts by
1 − αμ. So the proof of `itd` uses points of this ball only, and `ji-itd` is at least `itd` with the constants that
follow from L.
"""

from __future__ import annotations

from dataclasses import replace

from boundcheck.constants import Constant, Constants, Provenance
from boundcheck.errors import MissingConstantError
from boundcheck.side_arithmetic import sided
from boundcheck.theory.symbols import QUANTITIES

UP = 1 + 1e-12  # more than the rounding of L_Φ/α


def one_smoothness(constants: Constants) -> Constant:
    """Return L, the largest of ‖∇²₁ℓ‖, ‖∇²₂₁ℓ‖ = ‖∂₂Φ‖/α, ‖∇²₁E‖ and ‖∇²₁₂E‖, for a step α that is held fixed.

    Raises
    ------
    MissingConstantError
        If one of these norms is unknown.
    """
    for name in ("L", "L_Phi", "alpha", "eta_1", "eta_2"):
        if name not in constants:
            raise MissingConstantError(f"it needs {name} ({QUANTITIES[name].meaning}), which was not measured", (name,))
    with_side = {name: sided(constants[name]) for name in ("L", "L_Phi", "alpha", "eta_1", "eta_2")}
    parts = (with_side["L"], with_side["L_Phi"] / with_side["alpha"], with_side["eta_1"], with_side["eta_2"])
    joined = parts[0] + parts[1] + parts[2] + parts[3]  # the sum has the side of the weakest part
    largest = replace(joined, value=max(part.value for part in parts) * UP)
    return largest.bounds_above().named("L", Provenance("max of L, L_Φ/α, η₁ and η₂"))
