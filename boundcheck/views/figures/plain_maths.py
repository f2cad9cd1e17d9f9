"""Find formulas in plain sentences, so that w_0, μ_λ and w* are drawn as in a paper."""

from __future__ import annotations

import re

LETTERS = {"λ": r"\lambda", "μ": r"\mu", "ν": r"\nu", "η": r"\eta", "ρ": r"\rho", "σ": r"\sigma", "Φ": r"\Phi"}
LETTERS |= {"α": r"\alpha", "κ": r"\kappa", "ε": r"\varepsilon", "τ": r"\tau", "β": r"\beta"}
SYMBOL = re.compile(r"(?<![A-Za-zα-ωΦ_])([A-Za-zα-ωΦ])(?:_(\{[^}]*\}|[A-Za-z0-9α-ωΦ]+))?(\*?)(?![A-Za-z])")


def maths(text: str) -> str:
    """Return a sentence in which letters with a subscript or a star are formulas of matplotlib.

    Parameters
    ----------
    text : str
        A sentence without dollar signs.

    Returns
    -------
    str
        The sentence with formulas between dollar signs. Its spaces are the same.

    Examples
    --------
    >>> from boundcheck.views.figures.plain_maths import maths
    >>> maths("w_0 is not a solution"), maths("distance to w*")
    ('$w_{0}$ is not a solution', 'distance to $w^{*}$')
    """

    def formula(match: re.Match[str]) -> str:
        if not match[2] and not match[3]:
            return match[0]
        base, index = ("".join(LETTERS.get(x, x) for x in part) for part in (match[1], (match[2] or "").strip("{}")))
        return f"${base}{f'_{{{index}}}' if index else ''}{'^{*}' if match[3] else ''}$"

    return SYMBOL.sub(formula, text)
