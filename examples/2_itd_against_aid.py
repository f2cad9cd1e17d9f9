"""Lesson 2: ITD against AID, the hump t·q^t, and where it comes from."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="2 ITD against AID")


with app.setup(hide_code=True):
    import marimo as mo
    import numpy as np
    import torch
    from lesson import colour_of, exercises, numbers, panels, shown

    import boundcheck as bc
    from boundcheck.views.figures.canvas import GREY, number


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 2 · ITD against AID: where does $t\,q^t$ come from?

    The theorems say that after $t$ steps (and $k=t$ steps of the linear solver)

    $$\text{AID-FP:}\quad\text{error}\le C\,q^t\qquad\qquad\text{ITD:}\quad\text{error}\le C'\,t\,q^{t-1}+C''q^t.$$

    $q<1$ is the contraction constant: a step of training shrinks every distance by $q$ at least. **Why does ITD have a
    factor $t$, although both run $t$ steps of the same map?** Is the factor real, or is it an artefact of the proof?

    ## A problem on which everything can be computed by hand

    $\Phi(w,\lambda)=\lambda w+1$ at $\lambda=q$, started at $w_0=0$, with $E=w$. The distance to the fixed point
    $w^*=1/(1-q)$ is $r_t=q^tw^*$. **Predict:** divide both errors by $q^t$. What does each of them look like over $t$?
    """)
    return


@app.cell(hide_code=True)
def _():
    rate = mo.ui.slider(0.7, 0.98, step=0.01, value=0.9, label="$q$", show_value=True)
    mo.hstack([rate], justify="start")
    return (rate,)


@app.cell
def _(rate):
    q = rate.value
    w_star = 1 / (1 - q)
    t = np.arange(1, 61)
    measured = bc.error_curves(bc.load_problem("scalar", q=q), ["itd", "aid-fp"], t=60)
    # by hand: what the sums below come to
    by_hand = {
        "itd": w_star * (t * q ** (t - 1) + q**t / (1 - q)),
        "aid-fp": w_star * q**t * (2 - q**t) / (1 - q),
    }
    off = max(float(np.abs(measured[m][0] - by_hand[m]).max()) for m in by_hand) / (w_star / (1 - q))
    return by_hand, measured, off, q, t, w_star


@app.cell(hide_code=True)
def _(by_hand, measured, off, q, t):
    _figure, (_left, _right) = panels(2, height=2.8)
    for _m in ("itd", "aid-fp"):
        _left.semilogy(t, by_hand[_m], color=colour_of(_m), lw=1)
        _left.semilogy(t[::3], measured[_m][0, ::3], "o", ms=3, color=colour_of(_m), label=_m)
        _right.plot(t, measured[_m][0] / q**t, color=colour_of(_m), label=_m)
    _left.set(xlabel="$t$", ylabel=r"$|g-\nabla f|$", title="error: dots measured, lines by hand")
    _right.set(xlabel="$t$", title="the same, divided by $q^t$", ylim=(0, None))
    for _axes in (_left, _right):
        _axes.legend()
    shown(
        _figure,
        rf"""
    The formulas are exact (measured and by hand differ by {number(off)} of the hypergradient at most):

    $$\text{{ITD}}=w^*\Bigl(t\,q^{{t-1}}+\frac{{q^t}}{{1-q}}\Bigr),\qquad\text{{AID-FP}}=w^*\,q^t\,\frac{{2-q^t}}{{1-q}}.$$

    In units of $q^t$ the error of ITD is a straight line that keeps growing. The error of AID-FP saturates. **So the
    factor $t$ is real.** At $t$ = {t[-1]} ITD is {measured["itd"][0, -1] / measured["aid-fp"][0, -1]:.2f} times as far
    off as AID-FP, and the ratio keeps growing with $t$.
    """,
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Where the $t$ comes from

    ITD builds $w_t'$ step by step: $w_{i+1}'=q\,w_i'+w_i$, because $\partial_2\Phi(w_i)=w_i$. The truth obeys
    $w'=q\,w'+w^*$. Subtract: the error of the derivative is driven by the error of the iterate **at that time**.

    $$e_{i+1}=q\,e_i+r_i\qquad\Longrightarrow\qquad e_t=q^te_0+\sum_{i=0}^{t-1}q^{\,t-1-i}\,r_i.$$

    Early iterates have large errors, $r_i=q^iw^*$, but these have shrunk by the end. Late errors are small but recent.
    Every term of the sum is $q^{t-1-i}q^i=q^{t-1}$: **$t$ equal shares**. ITD keeps the errors of all its iterates.

    AID-FP evaluates $\partial_2\Phi$ at the *last* iterate only. Its sum is $\sum_jq^j\,r_t$, a geometric series that
    stays below $r_t/(1-q)$ whatever $k$ is. Choose a $t$ and look at the shares:
    """)
    return


@app.cell(hide_code=True)
def _():
    moment = mo.ui.slider(2, 40, value=12, label="$t=k$", show_value=True)
    mo.hstack([moment], justify="start")
    return (moment,)


@app.cell
def _(moment, q, w_star):
    _i = np.arange(moment.value)
    shares_itd = q ** (moment.value - 1 - _i) * q**_i * w_star  # error made at step i, propagated to the end
    shares_fp = q**_i * q**moment.value * w_star  # the last error, after i products
    return shares_fp, shares_itd


@app.cell(hide_code=True)
def _(moment, shares_fp, shares_itd):
    _figure, (_left, _right) = panels(2, height=2.3, sharey=True)
    _left.bar(np.arange(moment.value), shares_itd, color=colour_of("itd"), width=0.8)
    _right.bar(np.arange(moment.value), shares_fp, color=colour_of("aid-fp"), width=0.8)
    _left.set(xlabel="$i$", ylabel="share of the error", title=r"ITD: $q^{t-1-i}\,r_i$")
    _right.set(xlabel="$j$", title=r"AID-FP: $q^j\,r_t$")
    shown(
        _figure,
        f"""
    The bars add up to {shares_itd.sum():.4g} for ITD and {shares_fp.sum():.4g} for AID-FP. In both cases the part
    $q^t\\,w'$ is added, because the derivative started at 0.
    """,
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The hump

    $t\,q^{t-1}$ rises before it falls. Its top is where $\frac{d}{dt}(\ln t+t\ln q)=0$, at $t=-1/\ln q$. But look at
    the first picture: the error of ITD did *not* rise. The second term, $q^tw'$, hides the hump. To see it alone, make
    $w'=0$ with one more parameter:

    $$\Phi=(q+\lambda)w+1+s\lambda\quad\text{at }\lambda=0,\qquad\partial_2\Phi=w+s,\qquad w'=\frac{w^*+s}{1-q}.$$

    The iterates are the same as before, for every $s$. Both errors are

    $$\text{ITD}=\bigl|q^tw'+t\,q^{t-1}w^*\bigr|,\qquad\text{AID-FP}=\Bigl|q^tw'+q^tw^*\frac{1-q^t}{1-q}\Bigr|.$$

    At $s=-w^*$ the knob has no effect at all on $w(\lambda)$, and ITD sees nothing but the hump. **Predict** what
    happens *below* $-w^*$, where $w'$ and the hump have opposite signs.
    """)
    return


@app.cell(hide_code=True)
def _():
    shift = mo.ui.slider(-3, 0, step=0.1, value=-1, label="$s/w^*$", show_value=True)
    mo.hstack([shift], justify="start")
    return (shift,)


@app.cell
def _(q, shift, w_star):
    def shifted(s):
        """Φ = (q + λ)w + 1 + sλ at λ = 0, with E = w."""
        zero = torch.zeros(1, dtype=torch.float64)
        return bc.Problem.from_map(
            lambda w, lam: (q + lam) * w + 1 + s * lam, lambda w, lam: w.sum(), zero, zero, symmetric=True
        )

    humped = bc.error_curves(shifted(-w_star), ["itd", "aid-fp"], t=60)
    chosen = bc.error_curves(shifted(shift.value * w_star), ["itd", "aid-fp"], t=60)
    beyond = bc.error_curves(shifted(-3 * w_star), ["itd", "aid-fp"], t=round(5 / (1 - q)))
    peak_measured, peak_predicted = int(humped.t[humped["itd"][0].argmax()]), -1 / np.log(q)
    tops = {m: float(humped[m].max()) for m in humped}
    itd_wins = beyond.t[beyond["itd"][0] < beyond["aid-fp"][0]]  # the t at which ITD is closer
    return beyond, chosen, itd_wins, peak_measured, peak_predicted, tops


@app.cell(hide_code=True)
def _(beyond, chosen, itd_wins, peak_measured, peak_predicted, shift, tops):
    _figure, _axes = panels(height=2.8)
    for _m in ("itd", "aid-fp"):
        _axes.plot(chosen.t, chosen[_m][0], color=colour_of(_m), label=_m)
    _axes.axvline(peak_predicted, color=GREY, lw=0.8, ls=":", label=r"$t=-1/\ln q$")
    _axes.set(xlabel="$t=k$", ylabel=r"$|g-\nabla f|$", title=f"$s={shift.value:g}\\,w^*$", ylim=(0, None))
    _axes.legend()
    shown(
        _figure,
        rf"""
    At $s=-w^*$ the top is predicted at $t=-1/\ln q$ = {peak_predicted:.2f} and measured at $t$ = {peak_measured}.
    AID-FP has a hump there too, a lower one: {tops["aid-fp"]:.3g} against {tops["itd"]:.3g}. It is $q^t(1-q^k)/(1-q)$
    at $k=t$, small at first only because the linear solver has hardly begun.

    At $s=-3w^*$ **ITD is closer than AID-FP at {len(itd_wins)} of the $t\le{beyond.t[-1]}$**, but no longer after
    $t$ = {itd_wins[-1]}: in the long run the factor $t$ dominates. Both theorems are right. They say which *bound*
    is smaller, but a smaller bound does not mean a smaller error. "AID converges faster than ITD" is a statement
    about upper bounds (erratum 8 in `docs/errata.md`).

    ## And on a real problem?

    Logistic regression, with a regulariser for each weight. The bound of Theorem 2.1 holds the term $t\,q^{{t-1}}$,
    that of Theorem 2.4 does not. Do the *errors* behave like that?
    """,
    )
    return


@app.cell
def _():
    logistic = bc.error_curves(bc.problems.logistic_regression(seed=0), ["itd", "aid-fp"], t=300)
    ratio = logistic["itd"][0] / logistic["aid-fp"][0]
    rises = bool((logistic["itd"][0, 1:] > logistic["itd"][0, :-1]).any())
    return logistic, ratio, rises


@app.cell(hide_code=True)
def _(logistic, ratio, rises):
    _figure, (_left, _right) = panels(2, height=2.6)
    for _m in ("itd", "aid-fp"):
        _left.semilogy(logistic.t, logistic[_m][0], color=colour_of(_m), label=_m)
    _left.set(xlabel="$t=k$", ylabel=r"$\|g-\nabla f\|$", title="logistic regression")
    _left.legend()
    _right.plot(logistic.t, ratio, color="black")
    _right.set(xlabel="$t=k$", title="error of ITD / error of AID-FP")
    shown(
        _figure,
        f"""
    The ratio grows from {ratio[0]:.2f} at $t=1$ to {ratio[-1]:.2f} at $t$ = {logistic.t[-1]}. It is no longer a
    straight line: many eigenvalues take part, each with its own rate. The error of ITD
    {"rises" if rises else "never rises"} from one $t$ to the next: on this problem the hump is hidden.
    """,
    )
    return


@app.cell
def _(q, t, w_star):
    # for the exercises: AID-FP at w_5 with more and more steps of the linear solver, where w' = 0
    _w5 = w_star * (1 - q**5)
    growing = np.abs((_w5 - w_star) * (1 - q**t) / (1 - q))
    slow_peak = -1 / np.log(0.99)
    return growing, slow_peak


@app.cell(hide_code=True)
def _(growing, slow_peak):
    exercises(
        r"""
    1. At $q=0.99$, when does the hump have its top? How many steps of ITD would you take before you trust it?
    2. Take $s=-w^*$ and stop training at $t=5$. Does a *better* solution of the linear system, a larger $k$, help
       AID-FP?
    """,
        f"""
    At $-1/\\ln0.99$ = {slow_peak:.1f}. Before that, more steps may make the gradient *worse*. A rule: several times
    $1/(1-q)$.
    """,
        f"""
    No. $w'=0$, so the right answer is 0, and AID-FP returns $(w_5-w^*)(1-q^k)/(1-q)$: its error is {growing[0]:.3g} at
    $k=1$ and {growing[-1]:.3g} at $k$ = {len(growing)}. An accurate solution of the linear system at a
    wrong point is still a wrong answer. The two errors do not always add up; here an inaccurate solver hides the other.
    """,
    )
    return


@app.cell(hide_code=True)
def _(itd_wins, measured, off, peak_measured, peak_predicted, q, ratio, rises, shares_fp, shares_itd, tops, w_star):
    found = {
        "q": q,
        "w_star": w_star,
        "off": off,
        "errors": {m: {str(i): float(measured[m][0, i - 1]) for i in (1, 2, 5, 10, 20, 60)} for m in measured},
        "shares": {"itd": shares_itd.tolist(), "aid-fp": shares_fp.tolist()},
        "peak_measured": peak_measured,
        "peak_predicted": float(peak_predicted),
        "tops": tops,
        "itd_wins": itd_wins.tolist(),
        "ratio": [float(ratio[0]), float(ratio[-1])],
        "rises": rises,
    }
    numbers(found, "Next: **lesson 3**, `3_wrong_constant.py`: all of this needs $q$. What if it is too small?")
    return (found,)


if __name__ == "__main__":
    app.run()
