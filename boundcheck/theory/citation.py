"""The source of a statement: a paper, the LaTeX label (a stable key), and the printed number."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    key: str
    citation: str


@dataclass(frozen=True)
class Citation:
    """A citable statement; `label` is a LaTeX label of the paper, or a section of `docs/proofs.md` for our own."""

    paper: Paper
    number: str
    label: str

    def __str__(self) -> str:
        return f"{self.paper.key}, {self.number}"


GRAZZI = Paper(
    "Grazzi et al. 2020",
    "R. Grazzi, L. Franceschi, M. Pontil, S. Salzo. On the Iteration Complexity of Hypergradient Computation. "
    "ICML 2020.",
)
GRAZZI_2021 = Paper(
    "Grazzi et al. 2021",
    "R. Grazzi, M. Pontil, S. Salzo. Convergence Properties of Stochastic Hypergradients. AISTATS 2021, PMLR 130.",
)
GHADIMI = Paper(
    "Ghadimi and Wang 2018",
    "S. Ghadimi, M. Wang. Approximation Methods for Bilevel Programming. arXiv:1802.02246, 2018.",
)
JI = Paper(
    "Ji et al. 2021",
    "K. Ji, J. Yang, Y. Liang. Bilevel Optimization: Convergence Analysis and Enhanced Design. ICML 2021.",
)
ABLIN = Paper(
    "Ablin et al. 2020",
    "P. Ablin, G. Peyré, T. Moreau. Super-efficiency of Automatic Differentiation for Functions Defined as a Minimum. "
    "ICML 2020.",
)
SCIEUR = Paper(
    "Scieur et al. 2022",
    "D. Scieur, Q. Bertrand, G. Gidel, F. Pedregosa. The Curse of Unrolling: Rate of Differentiating Through "
    "Optimization. NeurIPS 2022.",
)
BOUNDCHECK = Paper("boundcheck", "This project, docs/proofs.md.")
