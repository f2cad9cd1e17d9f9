"""Lesson 4: tight and loose, or how to read a proof as a chain of inequalities."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="4 Reading the proof chain")


with app.setup(hide_code=True):
    from dataclasses import replace

    import marimo as mo
    import numpy as np
    from lesson import colour_of, exercises, numbers, panels, shown, table

    import boundcheck as bc
    from boundcheck.views.figures import drawn_bounds, report_figures
    from boundcheck.views.figures.canvas import number


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 4 · The bound is true but far too large. Which step of the proof makes it so?

    A theorem gives a number, a run gives another, and the first is far larger. A bound can be *true* and still be far
    too large. The question is **which step of the proof loses how much on my problem.**

    A proof of an upper bound is a chain. It starts at the error and replaces one quantity after the other by something
    larger and simpler:

    $$\text{error}\;\le\;\dots\;\le\;\dots\;\le\;\text{bound}.$$

    On a concrete problem every link of the chain is a number. The ratio of two neighbours is the *slack* of that step,
    and

    $$\frac{\text{bound}}{\text{error}}=\text{slack}_1\cdot\text{slack}_2\cdots\text{slack}_m,\qquad\text{each}\ge1.$$

    So the loss can be located. Three problems of the paper, in small sizes, trained by gradient
    descent: logistic regression (`lr`), biased regularisation (`br`), hyper-representation (`hr`).

    **Predict:** on which of them is Theorem 2.1 (ITD) tightest? By which factor does it miss on the worst?
    """)
    return


@app.cell
def _():
    problems = {
        "lr": bc.load_problem("lr", size=30, features=40),
        "br": bc.load_problem("br", dynamics="gradient-descent"),
        "hr": bc.load_problem("hr", size=20, features=30, represented=15, dynamics="gradient-descent"),
    }
    names = ["itd", "itd-local", "itd-path", "aid-fp", "aid-fp-local", "aid-fp-path", "aid-path", "aid-posteriori"]
    reports = {name: bc.check(problem, ["itd", "aid-fp"], t=100, bounds=names) for name, problem in problems.items()}
    return (reports,)


@app.cell(hide_code=True)
def _(reports):
    _rows = []
    for _name, _report in reports.items():
        _bound, _trace = _report.curve("itd").bounds["itd"], _report.trace("itd")
        _worst = int(_trace.slacks[:, -1].argmax())
        _lost = f"{_trace.links[_worst]}, ×{number(_trace.slacks[_worst, -1])}"
        _rows.append((f"`{_name}`", _bound.verdict.value, f"×{number(_bound.tightness[0, -1])}", _lost))
    _last = reports["lr"].curve("itd").t[-1]
    mo.md(table(("problem", "verdict", f"bound/error at $t$ = {_last}", "the link with the largest slack"), _rows))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Read the chain

    Each row is one inequality with the factor by which it increases the value. On the right is the same over $t$: the
    layers add up to $\log_{10}(\text{bound}/\text{error})$. Change the problem, the method and $t$.
    """)
    return


@app.cell(hide_code=True)
def _():
    which = mo.ui.dropdown(["lr", "br", "hr"], value="lr", label="problem")
    method = mo.ui.dropdown(["itd", "aid-fp"], value="itd", label="method")
    moment = mo.ui.slider(1, 100, value=100, label="$t$", show_value=True)
    mo.hstack([which, method, moment], justify="start", gap=2)
    return method, moment, which


@app.cell
def _(method, moment, reports, which):
    trace = reports[which.value].trace(method.value)
    at = int(np.abs(trace.t - moment.value).argmin())  # proofs are traced where the error is above rounding
    product = float(np.prod(trace.slacks[:, at]))
    bound_over_error = float(trace.values[-1, at] / trace.values[0, at])
    worst_link = int(trace.slacks[:, at].argmax())
    return at, bound_over_error, product, trace, worst_link


@app.cell(hide_code=True)
def _(at, bound_over_error, method, product, trace, which, worst_link):
    shown(
        report_figures.trace(trace, f"{method.value} on {which.value}", t=int(trace.t[at])),
        f"""
    The slacks multiply to {number(product)}, and bound/error is {number(bound_over_error)}: the same number, so
    nothing is hidden. The worst step is **{trace.links[worst_link]}**: {trace.because[worst_link]}. It is
    {100 * trace.shares[worst_link, at]:.0f} % of the loss, counted in logarithms.
    """,
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Three kinds of loss recur:

    - **suprema over a ball** (*∇₁E on the ball*, *∂₂Φ on the ball*). The theorem takes the largest $\|\nabla_1E\|$ on
      $\|w\|\le2D$. The run may never go there.
    - **one $q$ for all** (*contraction*, *derivative of the iterate*, *‖w'‖*). $q$ belongs to the slowest direction
    and the worst point.
      Most of the error moves faster.
    - **norms of products** ($\|Ab\|\le\|A\|\|b\|$). The error vector does not point where the matrix is largest.

    ## Use more information

    More information makes the bound smaller. *Local* bounds take their constants on the ball around $w^*$ that the
    iterates really visit. *A posteriori* bounds use the run itself: the residual, or the distances along the path.

    **Predict:** which of the three kinds of loss does a local bound reduce?
    """)
    return


@app.cell(hide_code=True)
def _(method, reports, which):
    _curve = reports[which.value].curve(method.value)
    _figure, _axes = panels(height=2.9)
    _colour = colour_of(method.value)
    _axes.semilogy(_curve.t, _curve.errors[0], color=_colour, lw=2, label=f"error of {method.value}")
    for _role, _bound in drawn_bounds.roles(_curve).items():
        _label = f"{_bound.name}, {_bound.kind}: ×{number(_bound.tightness[0, -1])} at the end"
        drawn_bounds.draw(_axes, _curve.t, _bound.values[0], _role, _bound, color=_colour, label=_label)
    _axes.set(xlabel="$t$", ylabel=r"$\|g-\nabla f\|$")
    _figure.legend(loc="outside right upper")
    shown(_figure)
    return


@app.cell
def _(reports):
    gained = {}
    for _name, _report in reports.items():
        _bounds = _report.curve("aid-fp").applicable
        gained[_name] = {b: float(_bounds[b].tightness[0, -1]) for b in ("aid-fp", "aid-fp-local", "aid-path")}
    proved = all(np.all(r.curve("aid-fp").certified() >= r.curve("aid-fp").errors) for r in reports.values())
    words = sorted({b.verdict.value for r in reports.values() for c in r.curves.values() for b in c.bounds.values()})
    return gained, proved, words


@app.cell(hide_code=True)
def _(gained, words):
    _rows = [(f"`{name}`", *(f"×{number(x)}" for x in bounds.values())) for name, bounds in gained.items()]
    mo.md(f"""
    For AID-FP, bound/error at the last $t$:

    {table(("problem", "Theorem 2.4", "local", "along the path, a posteriori"), _rows)}

    Verdicts of all bounds, on all three: {", ".join(words)}. They need different information: constants
    before the run, the solution, or observations of the run.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Is the theorem loose, or is it my problem?

    A large factor on `lr` does not say that the theorem is bad. It must hold on *every* problem with these constants,
    including the worst one. `bc.worst` searches for the problem on which error/bound is largest.
    """)
    return


@app.cell(hide_code=True)
def _():
    worst_t = mo.ui.slider(1, 5, value=1, label="$t$ of the search", show_value=True)
    mo.hstack([worst_t], justify="start")
    return (worst_t,)


@app.cell
def _(worst_t):
    worst = bc.worst("itd", q=0.9, t=worst_t.value, dim=1, quick=True)
    scalar = bc.check(bc.load_problem("scalar", q=0.9), ["itd"], t=40, bounds=["itd", "itd-local"])
    attained = scalar.curve("itd").bounds["itd-local"]
    return attained, scalar, worst


@app.cell(hide_code=True)
def _(attained, scalar, worst):
    mo.md(f"""
    The search tried {worst.evaluations} problems. The largest error/bound that it found is **{worst.ratio:.6f}**,
    confirmed in 50 digits. So Theorem 2.1, at this $q$ and $t$, cannot be improved in the constants it uses: there is
    a problem that attains it. `lr` is not that problem.

    The problem of lesson 2, $\\Phi=\\lambda w+1$, is nearly as bad. Theorem 2.1 misses by
    ×{scalar.curve("itd").bounds["itd"].best:.3f} at best, the local bound by ×{attained.best:.6f} to
    ×{attained.worst:.6f} over all $t$: it is an equality there.
    """)
    return


@app.cell
def _(scalar):
    # for the exercise: the same check with half of ν₂, on both balls
    halved = {ball: c.replace(replace(c["nu_2"], value=c["nu_2"].value / 2)) for ball, c in scalar.constants.items()}
    wrong = bc.check(bc.load_problem("scalar", q=0.9), ["itd"], t=40, bounds=["itd-local"], constants=halved)
    broken = wrong.curve("itd").bounds["itd-local"]
    return (broken,)


@app.cell(hide_code=True)
def _(broken, gained):
    exercises(
        r"""
    1. Somebody gives you $\nu_2$ half as large as it is. What happens to the chain?
    2. You want a certificate for one hypergradient that you have already computed. Which bound do you take?
    """,
        f"""
    On the problem where the bound is attained, the slack of one link falls below 1. The verdict is
    **{broken.verdict.value}**, and the reason names the link: *{broken.reason}*. On a loose problem the slack of the
    other links would hide the same mistake.
    """,
        f"""
    An a posteriori bound, because the run is available. On `lr` it is ×{number(gained["lr"]["aid-path"])} where
    Theorem 2.4 is ×{number(gained["lr"]["aid-fp"])}. `bc.enclose(problem, g)` goes further: it gives lower and upper
    bounds on the error of any vector.
    """,
    )
    return


@app.cell(hide_code=True)
def _(attained, broken, gained, proved, reports, words, worst):
    found = {
        "tightness": {n: float(r.curve("itd").bounds["itd"].tightness[0, -1]) for n, r in reports.items()},
        "products": {n: float(r.trace("itd").slacks[:, -1].prod()) for n, r in reports.items()},
        "least_slack": {n: float(r.trace("itd").slacks.min()) for n, r in reports.items()},
        "verdicts": {n: r.verdict.value for n, r in reports.items()},
        "gained": gained,
        "proved": proved,
        "words": words,
        "worst": worst.ratio,
        "refuted": worst.refuted,
        "attained": [attained.best, attained.worst],
        "broken": [broken.verdict.value, broken.trace.first_broken],
    }
    numbers(found, "Next: **lesson 5**, `5_no_contraction.py`: what remains true if $q\\ge1$?")
    return (found,)


if __name__ == "__main__":
    app.run()
