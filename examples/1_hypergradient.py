"""Lesson 1: what a hypergradient is, and why every approximation has an error."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="1 What is a hypergradient?")


with app.setup(hide_code=True):
    import marimo as mo
    import numpy as np
    import torch
    from lesson import colour_of, exercises, numbers, panels, shown

    import boundcheck as bc
    from boundcheck.views.figures.canvas import BLUE, GREY, VERMILLION, number


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 1 · What is a hypergradient, and why do approximations have errors?

    You train a model and look at its validation loss. The training has a knob $\lambda$: a regulariser, a learning
    rate, a weight of the data. **By how much would the validation loss change if you turned the knob a little and
    trained again?**

    That number is the hypergradient. Training is itself an optimisation, so the answer seems to cost a whole training
    run for each knob. There are cheaper ways, but each of them makes an error. This lesson explains where the error
    comes from.

    $$\min_\lambda\ f(\lambda)=E(w(\lambda),\lambda)\qquad\text{where}\qquad w(\lambda)=\Phi(w(\lambda),\lambda).$$

    $E$ is the validation loss. $\Phi$ is one training step, and $w(\lambda)$ is the result of training to the end.

    ## The smallest example

    One weight, one knob: $\Phi(w,\lambda)=\lambda w+1$ and $E=w$. Training stops moving at $w(\lambda)=1/(1-\lambda)$.
    Move the knob:
    """)
    return


@app.cell(hide_code=True)
def _():
    knob = mo.ui.slider(0.1, 0.9, step=0.05, value=0.6, label="$\\lambda$", show_value=True)
    mo.hstack([knob], justify="start")
    return (knob,)


@app.cell
def _(knob):
    scalar = bc.load_problem("scalar", q=knob.value)
    slope = float(bc.hypergradient(scalar, "exact").value)
    w_star = float(bc.hypergradient(scalar, "exact").w)
    return scalar, slope, w_star


@app.cell(hide_code=True)
def _(knob, slope, w_star):
    _figure, _axes = panels(height=2.6)
    _lam = np.linspace(0, 0.95, 200)
    _axes.plot(_lam, 1 / (1 - _lam), color=BLUE, label=r"$f(\lambda)=E(w(\lambda))$")
    _near = np.array([max(0.0, knob.value - 0.25), min(1.0, knob.value + 0.25)])
    _axes.plot(
        _near, w_star + slope * (_near - knob.value), color=VERMILLION, ls="--", label="slope: the hypergradient"
    )
    _axes.plot([knob.value], [w_star], "o", color=VERMILLION)
    _axes.set(xlabel=r"$\lambda$", ylabel=r"$f(\lambda)$", xlim=(0, 1), ylim=(0, 15))
    _axes.legend(loc="upper left")
    shown(_figure)
    return


@app.cell(hide_code=True)
def _(knob, slope, w_star):
    mo.md(rf"""
    Two derivatives of $\Phi$ are all that is needed. Differentiate $w(\lambda)=\Phi(w(\lambda),\lambda)$ on both sides:

    $$w'=\partial_1\Phi\,w'+\partial_2\Phi\quad\Longrightarrow\quad w'=(I-\partial_1\Phi)^{{-1}}\partial_2\Phi,
    \qquad\nabla f=\nabla_2E+w'^\top\nabla_1E.$$

    This is the implicit function theorem. It does not depend on *how* $w(\lambda)$ was found. Here
    $\partial_1\Phi=\lambda$ and $\partial_2\Phi=w$, so $\nabla f=w(\lambda)/(1-\lambda)$ =
    {w_star:.4g}/{1 - knob.value:.4g} = **{slope:.4g}**.

    ## Check it: turn the knob a little

    A derivative can be checked by a difference: $\bigl(f(\lambda+h)-f(\lambda-h)\bigr)/2h$. **Predict first:** is a
    smaller $h$ always better?
    """)
    return


@app.cell
def _():
    logistic = bc.problems.logistic_regression(seed=0)  # d weights, one regulariser for each of them
    exact = bc.hypergradient(logistic, "exact")  # Newton's method, then one linear system
    direction = torch.randn(logistic.n, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    direction /= direction.norm()

    def f(lam):
        """Train to the end at this λ, then validate."""
        return float(logistic.outer(bc.hypergradient(logistic, "exact", lam=lam).w, lam))

    steps = 10.0 ** np.arange(-1.5, -12, -0.5)
    differences = np.array(
        [(f(logistic.lam + h * direction) - f(logistic.lam - h * direction)) / (2 * h) for h in steps]
    )
    disagreement = np.abs(differences - float(exact.value @ direction))
    best_h = float(steps[disagreement.argmin()])
    return best_h, disagreement, exact, logistic, steps


@app.cell(hide_code=True)
def _(best_h, disagreement, logistic, steps):
    _figure, _axes = panels(height=2.4)
    _axes.loglog(steps, disagreement, "o-", ms=3, color=BLUE)
    _axes.set(xlabel="$h$", ylabel="difference − hypergradient")
    shown(
        _figure,
        f"""
    Logistic regression with {logistic.d} weights and a regulariser for each of them, along one random direction of λ.
    On the right the difference is wrong because $f$ is curved (like $h^2$), on the left because two nearly equal
    numbers are subtracted (like $10^{{-16}}/h$). The two agree best at $h$ = {number(best_h)}, to
    {number(disagreement.min())}. So the formula is right. But differences cost two whole trainings for *each* of the
    {logistic.n} knobs, {2 * logistic.n} in all. The implicit function theorem costs **one** training and
    **one** linear system.
    """,
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Why approximations have errors

    In practice, training stops early, and nobody inverts $I-\partial_1\Phi$. Two things are approximated:

    | exact | in practice | error |
    |:--|:--|:--|
    | $w(\lambda)$ | $w_t$ after $t$ steps of training | shrinks with $t$ |
    | $v=(I-\partial_1\Phi^\top)^{-1}\nabla_1E$ | $v_k$ after $k$ steps of a linear solver | shrinks with $k$ |

    **AID** (approximate implicit differentiation) does just this: $\nabla_2E(w_t)+\partial_2\Phi(w_t)^\top v_k$. The
    solver is fixed-point iteration (AID-FP) or conjugate gradient (AID-CG).

    **ITD** (iterative differentiation) backpropagates through the $t$ steps of training. It is the *exact* gradient
    of the *wrong* function, $f_t(\lambda)=E(w_t(\lambda),\lambda)$.

    **Predict:** after the same number of steps, $k=t$, which of the three is closest to $\nabla f$? Which farthest?
    """)
    return


@app.cell(hide_code=True)
def _():
    fixed_k = mo.ui.slider(1, 60, value=5, label="steps of the linear solver, $k$", show_value=True)
    last_t = mo.ui.slider(50, 300, step=50, value=300, label="steps of training, up to", show_value=True)
    mo.hstack([fixed_k, last_t], justify="start", gap=2)
    return fixed_k, last_t


@app.cell
def _(exact, fixed_k, last_t, logistic):
    k = fixed_k.value
    curves = bc.error_curves(logistic, ["itd", "aid-fp", "aid-cg", f"aid-fp:{k}", f"aid-cg:{k}"], t=last_t.value)
    # the error of the linear system alone: start at w(λ) and take no training step
    plateau = {
        m: float((bc.hypergradient(logistic, m, t=0, k=k, w0=exact.w).value - exact.value).norm())
        for m in ("aid-fp", "aid-cg")
    }
    return curves, k, plateau


@app.cell(hide_code=True)
def _(curves, k, plateau):
    _figure, (_left, _right) = panels(2, height=2.9, sharey=True)
    for _m in ("itd", "aid-fp", "aid-cg"):
        _left.semilogy(curves.t, curves[_m][0], color=colour_of(_m), label=_m)
    _left.set(xlabel="$t$", ylabel=r"$\|g(\lambda)-\nabla f(\lambda)\|$", title="both grow: $k=t$")
    for _m in ("aid-fp", "aid-cg"):
        _right.semilogy(curves.t, curves[f"{_m}:{k}"][0], "--", color=colour_of(_m), label=f"{_m}, $k={k}$")
        _right.axhline(plateau[_m], color=GREY, lw=0.8, ls=":")
    _right.plot([], [], color=GREY, lw=0.8, ls=":", label="$k$ steps at $w(\\lambda)$ itself")
    _right.set(xlabel="$t$", title=f"only $t$ grows: $k={k}$")
    _left.set_ylim(bottom=min(curves[_m].min() for _m in curves) / 3)  # a line far below them may be out of sight
    for _axes in (_left, _right):
        _axes.legend(loc="lower left")
    _last = {m: number(curves[m][0, -1]) for m in curves}
    shown(
        _figure,
        f"""
    Left: at $t=k$ = {curves.t[-1]} the error of ITD is {_last["itd"]}, that of AID-FP {_last["aid-fp"]}, that of AID-CG
    {_last["aid-cg"]}. Lesson 2 explains why ITD is above the others.

    Right: with $k$ = {k} fixed, training helps down to the dotted line and no further. That is the error of the linear
    system alone, measured by starting at $w(\\lambda)$: {number(plateau["aid-fp"])} for fixed-point steps,
    {number(plateau["aid-cg"])} for CG. Move $k$: **an error has two sources, and the larger one is what you see.**
    """,
    )
    return


@app.cell
def _(scalar):
    first_step = float(bc.hypergradient(scalar, "itd", t=1).value)  # for the first exercise
    return (first_step,)


@app.cell(hide_code=True)
def _(exact, first_step, logistic):
    _start = bc.hypergradient(logistic, "itd", t=1).value
    exercises(
        r"""
    1. On $\Phi=\lambda w+1$, started at $w_0=0$: what does ITD return after **one** step, at any $\lambda$?
    2. You may take 100 steps in all, $t+k=100$. The linear solver is fixed-point iteration. Is $t=k=50$ a good choice?
    """,
        f"""
    Zero: `bc.hypergradient(scalar, "itd", t=1)` gives {first_step:g}. $w_1=\\lambda\\cdot0+1=1$ does not depend on λ,
    so its derivative is 0. ITD sees only how the steps *so far* depend on λ. The same happens on logistic regression:
    the first ITD gradient has norm {number(float(_start.norm()))}, where the true one has
    {number(float(exact.value.norm()))}.
    """,
        r"""
    Look at both panels: the larger of the two errors decides, and both fall at rate $q$ a step. So equal shares are
    about right, up to the constants in front. `bc.plan(problem, eps=…)` splits $t$ and $k$ with the constants of your
    problem, and with the time that a step of either kind takes.
    """,
    )
    return


@app.cell(hide_code=True)
def _(best_h, curves, disagreement, exact, first_step, plateau, slope, w_star):
    found = {
        "w_star": w_star,
        "slope": slope,
        "best_h": best_h,
        "disagreement": float(disagreement.min()),
        "norm": float(exact.value.norm()),
        "first_step": first_step,
        "errors": {m: float(curves[m][0, -1]) for m in curves},
        "plateau": plateau,
    }
    numbers(found, "Next: **lesson 2**, `2_itd_against_aid.py`: why ITD is behind, and when it is not.")
    return (found,)


if __name__ == "__main__":
    app.run()
