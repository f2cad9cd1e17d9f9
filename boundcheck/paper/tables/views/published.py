"""The published tables 1 and 2, as "objective (test accuracy in %)", with a column for each t of `COLUMNS`."""

from __future__ import annotations

from typing import NamedTuple

COLUMNS = {"parkinson": (100, 150), "newsgroups": (10, 25, 50), "fashion-mnist": (5, 10)}
WHERE = {"table1": "Table 1, section 4.2", "table2": "Table 2, appendix C.2"}
CELLS: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {
    "table1": {
        "parkinson": {
            "ITD": ("2.39 (75.8)", "2.11 (69.7)"),
            "FP k=t": ("2.37 (81.8)", "2.20 (77.3)"),
            "CG k=t": ("2.37 (78.8)", "2.20 (77.3)"),
            "FP k=k_r": ("2.71 (80.3)", "2.60 (78.8)"),
            "CG k=k_r": ("2.33 (77.3)", "2.02 (77.3)"),
        },
        "newsgroups": {
            "ITD": ("1.08 (61.3)", "0.97 (62.8)", "0.89 (64.2)"),
            "FP k=t": ("1.03 (62.1)", "1.02 (62.3)", "0.84 (64.4)"),
            "CG k=t": ("0.93 (63.7)", "0.78 (63.3)", "0.64 (63.1)"),
            "FP k=k_r": ("", "0.94 (63.6)", "0.97 (63.0)"),
            "CG k=k_r": ("", "0.82 (64.3)", "0.75 (64.2)"),
        },
        "fashion-mnist": {
            "ITD": ("0.41 (84.1)", "0.43 (83.8)"),
            "FP k=t": ("0.41 (84.1)", "0.43 (83.8)"),
            "CG k=t": ("0.42 (83.9)", "0.42 (84.0)"),
            "FP k=k_r": ("", "0.42 (83.9)"),
            "CG k=k_r": ("", "0.42 (84.0)"),
        },
    },
    "table2": {
        "parkinson": {
            "ITD": ("2.39 (75.8)", "2.11 (69.7)"),
            "FP k=t": ("2.36 (81.8)", "2.19 (77.3)"),
            "CG k=t": ("2.20 (78.8)", "2.19 (77.3)"),
            "FP k=k_r": ("2.71 (80.3)", "2.60 (78.8)"),
            "CG k=k_r": ("2.17 (78.8)", "1.99 (77.3)"),
        },
        "newsgroups": {
            "ITD": ("1.155 (59.4)", "1.082 (61.1)", "1.058 (61.6)"),
            "FP k=t": ("1.155 (59.5)", "1.083 (61.1)", "1.058 (61.6)"),
            "CG k=t": ("0.983 (62.9)", "0.955 (62.9)", "0.946 (63.5)"),
            "FP k=k_r": ("1.155 (59.5)", "1.078 (61.7)", "1.160 (59.1)"),
            "CG k=k_r": ("0.983 (62.9)", "0.989 (62.6)", "1.001 (62.3)"),
        },
        "fashion-mnist": {
            "ITD": ("0.497 (84.1)", "0.431 (83.8)"),
            "FP k=t": ("0.497 (84.1)", "0.431 (83.8)"),
            "CG k=t": ("0.522 (83.8)", "0.424 (84.0)"),
            "FP k=k_r": ("0.497 (84.1)", "0.426 (83.9)"),
            "CG k=k_r": ("0.522 (83.8)", "0.424 (84.0)"),
        },
    },
}


class Cell(NamedTuple):
    """An objective and a test accuracy in %."""

    objective: float
    accuracy: float

    @classmethod
    def read(cls, text: str) -> Cell:
        objective, _, accuracy = text.rstrip(")").partition(" (")
        return cls(float(objective), float(accuracy))


def cells(table: str) -> dict[tuple[str, int, str], str]:
    """Return the texts of the table that are not empty, by (data set, t, row)."""
    return {
        (data, t, row): text
        for data, rows in CELLS[table].items()
        for row, texts in rows.items()
        for t, text in zip(COLUMNS[data], texts, strict=True)
        if text
    }
