"""Constants by name. Theory and numerics share only these.

This module imports neither sympy nor torch. The names are those of `theory/symbols.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, overload

from boundcheck import constants_card
from boundcheck.ball import Ball
from boundcheck.constant import GIVEN, Constant, Provenance
from boundcheck.errors import InputError, UnknownNameError
from boundcheck.frames import frame
from boundcheck.side import Side

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["GIVEN", "NAMES", "Constant", "Constants", "Provenance"]

# The names of constants; `theory/symbols.py` has the symbol and the meaning of each.
NAMES = frozenset(
    (
        "q", "q_star", "nu_1", "nu_2", "eta_1", "eta_2", "D", "L_E", "L_Phi", "L_Phi_star", "mu_inv", "kappa", "m",
        "mu", "L", "alpha", "grad_alpha", "hat_rho_1", "hat_rho_2", "L_ell", "r_0", "W", "g_star", "chi", "omega",
        "eps_g", "q_P", "nu_1_P", "nu_2_P", "eta_1_P", "eta_2_P", "D_P", "L_E_P", "L_Phi_P", "m_1",
        "m_2", "L_Phi_hat", "V_star", "sigma_1", "sigma_2", "sigma_1_grad", "sigma_2_grad", "mu_ell_hat", "L_ell_hat",
        "mse_0", "eta", "beta", "gamma", "t", "k", "K",
    )
)  # fmt: skip

Default = TypeVar("Default")


@dataclass(frozen=True)
class Constants(Mapping[str, Constant]):
    """A read-only mapping from name to `Constant`.

    Create one with `Constants.given`, or from a dict of constants by their names.

    Raises
    ------
    InputError
        If a value is not a `Constant`, or is stored under another name than its own.
    UnknownNameError
        If a lookup uses a name that the mapping does not have.
    """

    _by_name: Mapping[str, Constant] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, constant in self._by_name.items():
            if not isinstance(constant, Constant):
                raise InputError(
                    f"{name} = {constant!r} is a bare value; wrap it in Constant or use Constants.given({name}=…)"
                )
            if name != constant.name:
                raise InputError(f"the constant stored as {name!r} is named {constant.name!r}; use one name for both")
        object.__setattr__(self, "_by_name", dict(self._by_name))

    @classmethod
    def given(
        cls, *, side: Side | str = Side.EXACT, sides: Mapping[str, Side | str] | None = None, **values: float | Constant
    ) -> Constants:
        """Create constants from numbers.

        Parameters
        ----------
        side : Side or str
            The side of every number: "exact" (the default), "upper", "high-probability" or "lower".
        sides : mapping from str to Side or str, optional
            The sides of some of the constants, in place of `side`.
        **values : float or Constant
            The constants by name. A value that is already a `Constant` keeps its own side.

        Returns
        -------
        Constants
            The constants by name.

        Raises
        ------
        UnknownNameError
            If the theory has no constant of that name.
        InputError
            If a value is not a finite number, if there is no such side, or if `sides` has a name without a value.

        Examples
        --------
        >>> import boundcheck as bc
        >>> constants = bc.Constants.given(q=0.9, D=1.0, side="upper", sides={"D": "exact"})
        >>> constants["q"].value, constants["q"].side.value, constants["D"].side.value
        (0.9, 'upper', 'exact')
        """
        sides = dict(sides or {})
        if stray := sorted(set(sides) - set(values)):
            raise InputError(f"sides names {stray[0]!r}, which has no value; give {stray[0]}=… as well")
        if unknown := sorted(set(values) - NAMES):
            raise UnknownNameError.among("constant", unknown[0], NAMES)
        constants = {
            name: value if isinstance(value, Constant) else Constant(name, value, Side.parse(sides.get(name, side)))
            for name, value in values.items()
        }
        return cls(constants)

    def __getitem__(self, name: str) -> Constant:
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownNameError.among("constant", name, self._by_name) from None

    # `Mapping` would use `__getitem__` for the next two methods, and its error searches for similar names.
    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @overload
    def get(self, name: str, /) -> Constant | None: ...
    @overload
    def get(self, name: str, /, default: Constant | Default) -> Constant | Default: ...
    def get(self, name: str, /, default: Any = None) -> Any:
        """Return the constant of a name, or a default.

        Parameters
        ----------
        name : str
            The name of the constant.
        default : optional
            What to return if there is no constant of this name; None by default.

        Returns
        -------
        Constant
            The constant, or `default`.
        """
        return self._by_name.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"Constants({', '.join(f'{c.name}={c.value:.4g}' for c in self.values())})"

    def __str__(self) -> str:
        return constants_card.card(self).text()

    def _repr_html_(self) -> str:
        return constants_card.card(self).html()

    def to_frame(self) -> DataFrame:
        """Return the constants as a pandas table, one row for each.

        Returns
        -------
        DataFrame
            A table with the columns name, value, known ("proved", "probable" or "estimated"), side, delta, how and
            products.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        return frame(constants_card.columns(self))

    def replace(self, *constants: Constant) -> Constants:
        """Return a copy in which these constants replace those of the same name.

        Parameters
        ----------
        *constants : Constant
            The constants; new names are added.

        Returns
        -------
        Constants
            The copy.
        """
        return Constants({**self._by_name, **{c.name: c for c in constants}})

    def as_json(self) -> dict[str, dict[str, Any]]:
        """Return the constants as plain data, for a JSON file.

        Returns
        -------
        dict
            For each name: the value, the side, the values on smaller balls if there are any, and every entry of the
            provenance that is not empty.
        """
        return {
            name: {
                "value": constant.value,
                "side": constant.side.value,
                **{
                    key: [list(pair) for pair in table]
                    for key, table in (("on_smaller", constant.on_smaller), ("towards", constant.towards))
                    if table
                },
                **{key: value for key, value in asdict(constant.provenance).items() if value not in (None, "")},
            }
            for name, constant in self.items()
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Mapping[str, Any]]) -> Constants:
        """Return the constants from the output of `as_json`.

        Parameters
        ----------
        content : mapping
            The output of `as_json`.

        Returns
        -------
        Constants
            The same constants.
        """
        constants = {}
        for name, entry in content.items():
            tables = {
                key: tuple((radius, value) for radius, value in entry.get(key, ())) for key in ("on_smaller", "towards")
            }
            rest = {key: value for key, value in entry.items() if key not in ("value", "side", *tables)}
            ball = Ball(**rest.pop("ball")) if "ball" in rest else None
            provenance = Provenance(**rest, ball=ball)
            constants[name] = Constant(name, entry["value"], Side(entry["side"]), provenance, **tables)
        return cls(constants)
