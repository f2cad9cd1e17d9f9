"""One name for each bound, in tables, legends and pages: that of the catalogue, with the theorem's number behind it."""

from __future__ import annotations

import re

NUMBERED = re.compile(r"(Theorem|Proposition|Lemma|Corollary|Appendix|appendix)\b")


def bound_name(name: str, reference: str = "") -> str:
    """A bound as people read it.

    Parameters
    ----------
    name : str
        The name of the bound in the catalogue.
    reference : str
        Where it is stated, as in `BoundCurve.reference`. A bound without a numbered statement has its name only.

    Returns
    -------
    str
        The name, and the number of the statement in brackets.

    Examples
    --------
    >>> from boundcheck.views.bound_names import bound_name
    >>> bound_name("itd", "Theorem 2.1"), bound_name("itd-local", "ITD, local")
    ('itd (Theorem 2.1)', 'itd-local')
    """
    return f"{name} ({reference})" if NUMBERED.match(reference) else name
