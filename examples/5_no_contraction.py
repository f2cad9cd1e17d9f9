"""Lesson 5: what remains true if the map is not a contraction."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="5 When the map is not a contraction")


with app.setup(hide_code=True):
    import marimo as mo
    import numpy as np
    import torch
    from lesson import colour_of, exercises, numbers, panels, shown, table, verdicts

    import boundcheck as bc
    from boundcheck.theory import step_sizes
    from boundcheck.views.figures.canvas import GREY, ORANGE, number


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 5 · What remains true if the map is not a contraction?

    Every theorem so far assumed $\|\partial_1\Phi\|\le q<1$. There are three common cases in which this fails: a step
    size that is too large; a layer with $\|A\|\ge1$; and momentum, which is not a contraction in the usual norm even if
    it converges.

    **In which of them do the methods really fail, and in which does only the theorem not apply?**

    ## 1. A step too large

    Gradient descent on a quadratic with curvatures between $\mu$ and $L$ has $q=\max\{1-\alpha\mu,\ \alpha L-1\}$. It
    reaches 1 at $\alpha=2/L$. **Predict:** beyond it, which of ITD, AID-FP and AID-CG goes wrong? Remember that AID-CG
    solves its linear system without any contraction.
    """)
    return


@app.cell(hide_code=True)
def _():
    step = mo.ui.slider(0.5, 2.3, step=0.05, value=2.1, label="$\\alpha L$", show_value=True)
    mo.hstack([step], justify="start")
    return (step,)


@app.cell
def _(step):
    curvature = torch.tensor([1.0, 4.0, 10.0], dtype=torch.float64)
    alpha = step.value / 10
    quadratic = bc.Problem.from_loss(
        lambda w, lam: (curvature * w * w).sum() / 2 - (lam * w).sum(),
        lambda w, lam: ((w - 1) ** 2).sum() / 2,
        torch.zeros(3, dtype=torch.float64),
        torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64),
        step_size=alpha,
    )
    descent = step_sizes.gradient_descent(mu=1, L=10, alpha=alpha)
    report = bc.check(quadratic, t=60, bounds=["itd", "aid-fp", "aid-cg", "aid-path"])
    return alpha, descent, quadratic, report


@app.cell(hide_code=True)
def _(alpha, descent, report):
    _figure, (_left, _right) = panels(2)
    _alphas = np.linspace(0.03, 0.24, 100)
    _left.plot(_alphas, [step_sizes.gradient_descent(1, 10, a).q for a in _alphas], color="black")
    _left.axhline(1, color=GREY, lw=0.8, ls=":")
    _left.plot([alpha], [descent.q], "o", color=ORANGE)
    _left.set(xlabel=r"$\alpha$", ylabel="$q$", title=r"$q=\max\{1-\alpha\mu,\ \alpha L-1\}$")
    for _m, _style in (("itd", "-"), ("aid-fp", "--"), ("aid-cg", "-")):
        _right.semilogy(report.curve(_m).t, report.curve(_m).errors[0], _style, color=colour_of(_m), label=_m)
    _right.set(xlabel="$t=k$", ylabel=r"$\|g-\nabla f\|$", title=f"$q={descent.q:.3g}$")
    _right.legend()
    _said = "All bounds apply here. Move the slider beyond 2."
    if not descent.contracts:
        _said = """*Not applicable* comes with a reason: it names the assumption and the number. `aid-path` does not
    use $q$. It uses observations of the run, so it still applies if $w_t$ is close enough to $w^*$.

    All three methods fail for the same reason: $w_t$ diverges, or oscillates for ever at $q=1$. Solving the linear
    system at a wrong point accurately with CG does not help."""
    _pairs = [("itd", "itd"), ("aid-fp", "aid-fp"), ("aid-cg", "aid-cg"), ("aid-cg", "aid-path")]
    shown(
        _figure,
        rf"""
    What boundcheck says at $q$ = {descent.q:.3g}, where steps below $2/L$ = {descent.largest_alpha:.3g} contract:

    {verdicts(report, _pairs)}

    {_said}

    (ITD and AID-FP coincide on this problem, since $\partial_1\Phi$ and $\partial_2\Phi$ are the same everywhere.)

    ### ITD is still an exact derivative

    ITD is the derivative of $f_t(\lambda)=E(w_t(\lambda),\lambda)$, whatever $w_t$ does. Differences of $f_t$ show it.
    But $f_t$ is no longer close to $f$.
    """,
    )
    return


@app.cell
def _(quadratic):
    def f_t(lam, t):
        """Train for t steps at this λ, then validate."""
        return float(quadratic.outer(bc.hypergradient(quadratic, "itd", t=t, lam=lam).w, lam))

    def by_differences(t, h=1e-4):
        steps = h * torch.eye(quadratic.n, dtype=torch.float64)
        return np.array([f_t(quadratic.lam + e, t) - f_t(quadratic.lam - e, t) for e in steps]) / (2 * h)

    checked_at = (5, 20, 60)
    itd = {t: bc.hypergradient(quadratic, "itd", t=t).value.numpy() for t in checked_at}
    of_f_t = {t: float(np.linalg.norm(itd[t] - by_differences(t)) / np.linalg.norm(itd[t])) for t in checked_at}
    exact = bc.hypergradient(quadratic, "exact").value.numpy()
    of_f = {t: float(np.linalg.norm(itd[t] - exact) / np.linalg.norm(exact)) for t in checked_at}
    return of_f, of_f_t


@app.cell(hide_code=True)
def _(of_f, of_f_t):
    _head = ("$t$", "ITD against differences of $f_t$", r"ITD against $\nabla f$")
    mo.md(rf"""
    {table(_head, [(t, number(of_f_t[t]), number(of_f[t])) for t in of_f])}

    Relative distances. The first column is rounding, at any step size. The second is the error.

    ## 2. An equilibrium model with $\|A\|\ge1$

    $w=\tanh(Aw+\lambda)$, a small recurrent layer. Since $|\tanh'|\le1$, the best constant for *all* $w$ is
    $q=\|A\|$. But the iterates stay near $w^*$, where $\partial_1\Phi=\mathrm{{diag}}(\tanh')A$. Whether they converge
    in the end depends on its **spectral radius**, the largest $|\text{{eigenvalue}}|$, and not on its norm. For a
    matrix that is not symmetric the spectral radius may be much smaller.
    """)
    return


@app.cell(hide_code=True)
def _():
    size = mo.ui.slider(0.6, 1.8, step=0.1, value=1.2, label="$\\|A\\|$", show_value=True)
    mo.hstack([size], justify="start")
    return (size,)


@app.cell
def _(size):
    direction = torch.randn(6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    A = direction * size.value / torch.linalg.matrix_norm(direction, 2)
    target = torch.linspace(-0.5, 0.5, 6, dtype=torch.float64)
    zeros = torch.zeros(6, dtype=torch.float64)
    layer = bc.Problem.from_map(
        lambda w, lam: torch.tanh(A @ w + lam), lambda w, lam: ((w - target) ** 2).sum() / 2, zeros, zeros + 0.3
    )
    equilibrium = bc.check(layer, ["itd", "aid-fp", "aid-cgn"], t=80, bounds=["itd", "aid-fp", "aid-path"], budget=50)
    jacobian = torch.func.jacrev(layer.phi)(bc.hypergradient(layer, "exact").w, layer.lam)
    singular, eigen = torch.linalg.svdvals(jacobian), torch.linalg.eigvals(jacobian).abs()
    there = {"norm": float(singular.max()), "radius": float(eigen.max())}
    return equilibrium, there


@app.cell(hide_code=True)
def _(equilibrium, size, there):
    _figure, _axes = panels()
    for _m in ("itd", "aid-fp", "aid-cgn"):
        _axes.semilogy(equilibrium.curve(_m).t, equilibrium.curve(_m).errors[0], color=colour_of(_m), label=_m)
    _axes.set(xlabel="$t=k$", ylabel=r"$\|g-\nabla f\|$", title=f"$\\|A\\|={size.value:g}$")
    _axes.legend()
    _first, *_, _last = equilibrium.curve("itd").errors[0]
    shown(
        _figure,
        rf"""
    At $w^*$: $\|\partial_1\Phi\|$ = {there["norm"]:.3f}, spectral radius {there["radius"]:.3f}. What boundcheck says:

    {verdicts(equilibrium, [("itd", "itd"), ("aid-fp", "aid-fp"), ("aid-fp", "aid-path")])}

    With $\|A\|$ = {size.value:g} the error of ITD goes from {_first:.2g} to {_last:.2g}. Move the slider. Between
    $\|A\|=1$ and a spectral radius of 1 no theorem applies but the methods work. Beyond that the iterates no longer
    converge: ITD multiplies $t$ matrices that do not shrink, and AID evaluates at a point that is not a fixed point.

    ## 3. Momentum

    Heavy ball has a memory: its state is $z_t=(w_t,w_{{t-1}})$, and a step is a matrix $M$ for each curvature $h$. At
    the best parameters every eigenvalue of $M$ has modulus $s=(\sqrt\kappa-1)/(\sqrt\kappa+1)$, far better than
    gradient descent. **Predict:** is $\|M\|<1$?
    """,
    )
    return


@app.cell(hide_code=True)
def _():
    log_kappa = mo.ui.slider(1, 4, step=0.5, value=2, label="$\\log_{10}\\kappa$", show_value=True)
    mo.hstack([log_kappa], justify="start")
    return (log_kappa,)


@app.cell
def _(log_kappa):
    kappa = 10.0**log_kappa.value
    heavy = step_sizes.heavy_ball(mu=1, L=kappa)
    M = heavy.matrix(kappa)
    norm_M, radius_M = float(np.linalg.norm(M, 2)), float(np.abs(np.linalg.eigvals(M)).max())
    ts = np.arange(int(6 * kappa**0.5) + 1)
    growth = heavy.factor(ts)  # the exact worst case of ‖w_t − w*‖/‖w_0 − w*‖
    weighted = step_sizes.lyapunov(heavy, t=int(ts[-1]))
    return growth, heavy, kappa, norm_M, radius_M, ts, weighted


@app.cell(hide_code=True)
def _(growth, heavy, kappa, norm_M, radius_M, ts, weighted):
    _figure, _axes = panels()
    _axes.semilogy(ts, growth, color="black", label=r"worst $\|w_t-w^*\|/\|w_0-w^*\|$")
    _axes.semilogy(ts, weighted.factor(ts), "--", color=ORANGE, label=r"$\sqrt{\|P\|}\,q_P^t$, from the weighted norm")
    _axes.semilogy(ts, heavy.rate**ts, ":", color=GREY, label="$s^t$, from the eigenvalues alone")
    _axes.axhline(1, color="black", lw=0.6)
    _axes.set(xlabel="$t$", title=f"heavy ball, $\\kappa={kappa:.0f}$")
    _axes.legend()
    shown(
        _figure,
        rf"""
    No: $\|M\|$ = {norm_M:.3f}, although every eigenvalue has modulus {radius_M:.4f}. The distance to $w^*$ first
    *grows*, by a factor of up to {growth.max():.2f}, at $t$ = {growth.argmax()}. The eigenvalues alone would give
    the dotted line, which is wrong.

    There is a solution: another norm, $\|z\|_P^2=z^\top Pz$, in which the same $M$ contracts by $q_P$ =
    {weighted.q_P:.4f}. Every theorem holds in this norm. The price is $\sqrt{{\|P\|}}$ =
    {weighted.stretch**0.5:.1f} in front.
    """,
    )
    return


@app.cell
def _():
    momentum = bc.check(bc.load_problem("br"), ["itd", "aid-fp"], t=60)  # biased regularisation, by heavy ball
    return (momentum,)


@app.cell(hide_code=True)
def _(momentum):
    _pairs = [("itd", "itd"), ("itd", "itd-weighted"), ("itd", "heavy-ball"), ("aid-fp", "aid-fp")]
    mo.md(f"""
    On biased regularisation, trained by heavy ball:

    {verdicts(momentum, _pairs)}

    Theorem 2.1 does not apply. The bound in the weighted norm applies but is very loose. A theorem for heavy ball on
    quadratics is much closer. The AID bounds accept *any* rate of $w_t$, and apply once it is below 1.
    """)
    return


@app.cell(hide_code=True)
def _(momentum):
    _bounds = momentum.curve("itd").bounds
    exercises(
        r"""
    1. A colleague measures the spectral radius 0.98 of $\partial_1\Phi$, writes $q=0.98$ into Theorem 2.1, and plots
       the bound. What is wrong?
    2. Your training diverges and you have the ITD gradient. Is a gradient check by finite differences a good way to
       find that out?
    """,
        f"""
    The theorem needs a norm. If $\\partial_1\\Phi$ is symmetric, norm and spectral radius are equal, and the plot is
    right. If not, it is like the dotted line above. A weighted norm repairs this, at a price: on biased regularisation
    ×{number(_bounds["itd-weighted"].best)} at best, against ×{number(_bounds["heavy-ball"].best)} for the theorem about
    this method.
    """,
        """
    No. It compares ITD with differences of $f_t$, and those agree at every step size, as the table above shows. Look
    at the residual instead: `bc.hypergradient(…).residual.w` is $\\|w_t-\\Phi(w_t)\\|$, and it does not shrink.
    """,
    )
    return


@app.cell(hide_code=True)
def _(descent, equilibrium, growth, kappa, momentum, norm_M, of_f, of_f_t, radius_M, report, there, weighted):
    def _words(report):
        return {f"{m} {b.name}": b.verdict.value for m, c in report.curves.items() for b in c.bounds.values()}

    def _ends(report):
        return {m: [float(c.errors[0, 0]), float(c.errors[0, -1])] for m, c in report.curves.items()}

    found = {
        "q": descent.q,
        "step": {"verdicts": _words(report), "errors": _ends(report), "why": report.curve("itd").bounds["itd"].reason},
        "itd": {str(t): {"f_t": of_f_t[t], "f": of_f[t]} for t in of_f},
        "layer": {"verdicts": _words(equilibrium), "errors": _ends(equilibrium), **there},
        "heavy_ball": {"kappa": kappa, "norm": norm_M, "radius": radius_M, "peak": float(growth.max())},
        "weighted": weighted.q_P,
        "momentum": _words(momentum),
    }
    numbers(found, "This was the last lesson. `boundcheck check` does all of this for a problem of your own.")
    return (found,)


if __name__ == "__main__":
    app.run()
