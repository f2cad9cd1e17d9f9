"""LaTeX, Python and JavaScript say the same as the library, because they come from the same expression."""

from __future__ import annotations

import json
import math
import shutil
import subprocess

import pytest

import boundcheck as bc
from boundcheck.theory.codegen import arguments
from boundcheck.theory.symbols import QUANTITIES
from boundcheck.theory.typeset import expression_latex, expression_text

U = 2.0**-53
ALL = sorted(bc.bounds)
POINTS = [(1, 0), (1, 1), (2, 5), (17, 3), (60, 60)]


def values_for(bound: bc.Bound) -> dict[str, float]:
    """Distinct, tame values inside every domain."""
    special = {
        "q": 0.9,
        "q_star": 0.6,
        "q_P": 0.95,
        "kappa": 30.0,
        "mu": 0.1,
        "L": 3.0,
        "alpha": 0.3,
        "mu_inv": 0.1,
        "rho": 0.5,
        "newton_t": 0.05,
        "eps_w": 0.01,
        "eta": 0.001,
        "beta": 20.0,
        "gamma": 1e5,
        "mu_ell_hat": 0.05,
    }
    names = [name for name in bound.symbols if QUANTITIES[name].kind != "index"]
    return {name: special.get(name, 0.3 + 0.1 * i) for i, name in enumerate(names)}


@pytest.mark.parametrize("name", ALL)
def test_python_source_stands_alone(name: str) -> None:
    bound = bc.bounds[name]
    namespace: dict[str, object] = {}
    exec(compile(bound.python(), f"<{name}>", "exec"), namespace)  # our own generated source
    function = namespace[name.replace("-", "_")]
    for t, k in POINTS:
        point = {**values_for(bound), "t": t, "k": k}
        result = function(**{argument: point[argument] for argument in arguments(bound)})
        assert result == pytest.approx(float(bound.evaluate(values_for(bound), t, k).values), rel=2000 * U)


def test_python_source_of_a_paper_bound_is_readable() -> None:
    assert bc.bounds["itd"].python().startswith("def itd(t, q, nu_1, nu_2, eta_1, eta_2, D, L_E, L_Phi):\n")


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed, so JavaScript cannot be run")
@pytest.mark.parametrize("name", [name for name in ALL if bc.bounds[name].conditions])
def test_source_names_the_conditions_of_the_theorem(name: str) -> None:
    bound = bc.bounds[name]
    assert "\n    Says nothing unless " in bound.python()
    assert bound.javascript().splitlines()[1].startswith("// Says nothing unless ")
    free = bc.bounds["itd"]
    assert "unless" not in free.python() + free.javascript()


def test_javascript_agrees() -> None:
    script = "const out = {};\n"
    for name in ALL:
        bound = bc.bounds[name]
        points = [{**values_for(bound), "t": t, "k": k} for t, k in POINTS]
        script += bound.javascript()
        script += f"out[{json.dumps(name)}] = {json.dumps(points)}.map({name.replace('-', '_')});\n"
    script += "console.log(JSON.stringify(out));"
    run = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True, timeout=60)
    result = json.loads(run.stdout)
    for name in ALL:
        bound = bc.bounds[name]
        expected = [float(bound.evaluate(values_for(bound), t, k).values) for t, k in POINTS]
        assert result[name] == pytest.approx(expected, rel=1e-12), name


@pytest.mark.parametrize("name", ALL)
def test_latex_is_balanced_and_complete(name: str) -> None:
    text = bc.bounds[name].latex()
    assert r"\le" in text
    assert text.count("{") == text.count("}")
    assert text.count(r"\left") == text.count(r"\right")
    for raw in ("L_Phi", "nu_1", "mu_inv", "hat_rho", "GeometricSum", "Max", "star_"):
        assert raw not in text.replace(r"\nu_1", "").replace(r"\hat\rho", ""), raw


def test_latex_of_the_itd_bound() -> None:
    text = bc.bounds["itd"].latex()
    assert r"\|g(\lambda)-\nabla f(\lambda)\| \le c_2 q^{t - 1} t + q^{t} \left(c_1 + c_3\right)" in text
    assert r"c_3 = \frac{L_E L_\Phi}{1 - q}" in text
    assert "c_" not in bc.bounds["itd"].latex(coefficients=False)


def test_the_guard_against_t_zero_is_not_printed() -> None:
    text = bc.bounds["itd-local"].latex()
    assert r"\max" not in text
    assert r"\left(t - 1\right)" in text
    assert "max" not in expression_text(bc.bounds["itd-local"].formula)


def test_a_geometric_sum_is_printed_as_a_fraction() -> None:
    assert r"\frac{1-q^{k}}{1-q}" in expression_latex(bc.bounds["aid-fp"].formula)
    assert "1 - q" in expression_text(bc.bounds["aid-fp"].formula)


def test_recursive_bound_prints_its_recursion() -> None:
    text = bc.bounds["itd-recursive"].latex()
    assert r"r_{t+1} =" in text
    assert r"\Delta'_0 = W" in text
    assert r"\Delta'_1 =" in text


def test_python_of_a_bound_at_q_zero() -> None:
    namespace: dict[str, object] = {}
    exec(bc.bounds["aid-fp"].python(), namespace)
    point = dict.fromkeys(arguments(bc.bounds["aid-fp"]), 1.0) | {"q": 0.0, "t": 0, "k": 0}
    assert math.isfinite(namespace["aid_fp"](**point))
