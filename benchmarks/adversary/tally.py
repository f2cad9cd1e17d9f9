"""Counts over many problems: statements judged, false ones by kind, what was refused; as text and as JSON."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, fields
from typing import Any

from .ask import Answer

SHOWN = 3  # lines of each kind


@dataclass
class Tally:
    """What came of all problems so far."""

    problems: int = 0
    seconds: float = 0.0
    judged: Counter[str] = field(default_factory=Counter)  # statements that were compared with the truth, by kind
    lies: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    asked: Counter[str] = field(default_factory=Counter)  # legal problems by ingredient
    refused: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    unlawful: Counter[str] = field(default_factory=Counter)  # "asked" and "refused", of problems that are not legal

    def add(self, answer: Answer) -> None:
        self.problems += 1
        self.seconds += answer.seconds
        self.judged.update(answer.judged)
        for kind, line in answer.lies:
            self.lies[kind].append(line)
        if answer.legal:
            self.asked.update(answer.kinds)
            if answer.refusal:
                self.refused.update(answer.kinds)
                self.reasons[answer.refusal.partition(": ")[2][:70] or answer.refusal[:70]] += 1
        else:
            self.unlawful["asked"] += 1
            self.unlawful["refused"] += bool(answer.refusal)

    def join(self, other: Tally) -> None:
        """Add what another tally counted."""
        self.problems += other.problems
        self.seconds += other.seconds
        for name in COUNTERS:
            getattr(self, name).update(getattr(other, name))
        for kind, lines in other.lies.items():
            self.lies[kind] += lines

    def to_json(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Tally:
        tally = cls(given["problems"], given["seconds"])
        for name in COUNTERS:
            getattr(tally, name).update(given[name])
        tally.lies.update(given["lies"])
        return tally

    @property
    def false(self) -> int:
        return sum(map(len, self.lies.values()))

    def text(self, shown: int = SHOWN) -> str:
        lines = [f"{self.problems} problems, {1e3 * self.seconds / max(1, self.problems):.0f} ms each on one core"]
        lines += [f"{sum(self.judged.values())} statements judged:"]
        lines += [f"  {count:6d}  {kind}" for kind, count in self.judged.most_common()]
        lines += [f"{self.false} false statements" + (":" if self.false else "")]
        for kind, told in sorted(self.lies.items(), key=lambda item: -len(item[1])):
            lines.append(f"  {len(told):6d}  {kind}")
            lines += [f"            {line}" for line in told[:shown]]
        lines.append("refused, of legal problems with this ingredient:")
        for kind, count in sorted(self.asked.items()):
            lines.append(f"  {self.refused[kind]:6d} of {count:6d}  {kind}")
        lines.append(f"refused, of problems that are not legal: {self.unlawful['refused']} of {self.unlawful['asked']}")
        lines.append("why legal problems were refused, most often:")
        lines += [f"  {count:6d}  {reason}" for reason, count in self.reasons.most_common(8)]
        return "\n".join(lines)


COUNTERS = ("judged", "asked", "refused", "reasons", "unlawful")
