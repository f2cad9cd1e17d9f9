"""The name of a bound in tables, legends and pages: its name in the catalogue, and the number of the theorem."""

from __future__ import annotations

import re

NUMBERED = re.compile(r"(Theorem|Proposition|Lemma|Corollary|Appendix|appendix)\b")


def bound_name(name: str, reference: str = "") -> str:
    """Return the name of a bound for people.

    Parameters
    ----------
    name : str
        The name of the bound in the catalogue.
    reference : str
        Where the bound is stated, as in `BoundCurve.reference`. Without a numbered statement, only the name is
        returned.

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
