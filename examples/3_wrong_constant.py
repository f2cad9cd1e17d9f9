"""Lesson 3: power iteration, Lanczos, and how a wrong constant produces a false bound."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="3 How a wrong constant produces a false bound")


with app.setup(hide_code=True):
    from dataclasses import replace

    import marimo as mo
    import numpy as np
    import torch
    from lesson import colour_of, exercises, numbers, panels, shown, table

    import boundcheck as bc
    from boundcheck.numerics.estimate import lanczos
    from boundcheck.views.figures.canvas import GREY, ORANGE, number


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 3 · How does a wrong constant produce a false bound?

    Every bound of lesson 2 is made of $q^t$, and $q=\|\partial_1\Phi\|$ is the norm of a matrix. For a model with a
    million weights that matrix cannot be stored, and only products with it are available. So people run a few steps of
    power iteration, put $\hat q$ into the formula, and draw a curve labelled *bound*.

    **On which side of $q$ does $\hat q$ lie? And what does that do to the curve?**

    ## Estimates come from inside

    Let $A$ be symmetric with eigenvalues $\lambda_1\ge\lambda_2\ge\dots$ Whatever unit vector $u$ an iteration has
    arrived at,

    $$u^\top Au=\sum_i\lambda_i\,(v_i^\top u)^2$$

    is an *average* of eigenvalues. It is never above $\lambda_1$. Power iteration takes $u\propto A^{k-1}b$ for a
    random $b$, Lanczos the best $u$ among all polynomials in $A$ of that degree. Both estimate from below.

    **Predict:** which of these spectra is hardest for them?
    """)
    return


@app.cell(hide_code=True)
def _():
    kind = mo.ui.dropdown(
        ["spread evenly", "crowded at the top", "one alone at the top"], value="spread evenly", label="eigenvalues"
    )
    log_delta = mo.ui.slider(-6, -1, step=1, value=-3, label="$\\log_{10}\\delta$ of the certificate", show_value=True)
    mo.hstack([kind, log_delta], justify="start", gap=2)
    return kind, log_delta


@app.cell
def _(kind, log_delta):
    n, top, delta = 1000, 0.999, 10.0**log_delta.value
    eigenvalues = {
        "spread evenly": torch.linspace(0, top, n, dtype=torch.float64),
        "crowded at the top": 1 - torch.logspace(0, -3, n, dtype=torch.float64),
        "one alone at the top": torch.linspace(0, 0.9, n, dtype=torch.float64),
    }[kind.value]
    eigenvalues[-1] = top

    def start(seed=0):
        return torch.Generator().manual_seed(seed)

    products = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128])
    powers = np.array(lanczos.power(lambda u: eigenvalues * u, n, int(products[-1]), generator=start()))[products - 1]
    runs = [
        lanczos.lanczos(lambda u: eigenvalues * u, n, most=int(k), rtol=1e-15, delta=delta, generator=start()).largest
        for k in products
    ]
    ritz, certified = np.array([run.estimate for run in runs]), np.array([run.value for run in runs])
    return certified, delta, n, powers, products, ritz, start, top


@app.cell(hide_code=True)
def _(certified, delta, powers, products, ritz, top):
    _figure, (_left, _right) = panels(2, height=2.8)
    for _values, _marker, _colour, _name in (
        (powers, "o-", ORANGE, "power iteration, from below"),
        (ritz, "s-", GREY, "Lanczos, from below"),
        (certified, "^-", "black", "Lanczos, certified, from above"),
    ):
        _left.semilogx(products, _values, _marker, ms=3, color=_colour)
        _right.loglog(products, np.abs(_values / top - 1).clip(1e-16), _marker, ms=3, color=_colour, label=_name)
    _left.axhline(top, color="black", lw=0.8, ls=":")
    _left.set(xlabel="products with $A$", ylim=(0.4, 1.6), title="largest eigenvalue; dotted: the truth")
    _right.set(xlabel="products with $A$", title="relative distance to the truth", ylim=(1e-9, 1e6))
    _right.legend(loc="upper right")
    shown(
        _figure,
        f"""
    After {products[-1]} products power iteration is too small by {number(1 - powers[-1] / top)}, Lanczos by
    {number(max(0.0, 1 - ritz[-1] / top))}. **Neither is ever too large.** The third curve is an upper
    bound. It follows from the *random* start.

    A start $b$ drawn uniformly from the sphere has at least a little of the top eigenvector $v_1$ in it, except with
    probability $\\delta$ = {number(delta)}. An eigenvalue far above the estimate of Lanczos would have been visible. So
    there is an upper limit for it: after {products[-1]} products it is {certified[-1]:.4f}.
    `boundcheck.numerics.estimate.lanczos.lanczos` returns both numbers, `estimate` and `value`.

    ## "But the residual is tiny"

    A small $\\|Au-\\theta u\\|$ proves that *some* eigenvalue is near $\\theta$. It does not prove that it is the top
    one. Below is a matrix whose top eigenvector was chosen, on purpose, at right angles to the start of seed 0: by
    somebody who *knows the start*. Lanczos from seed 0 cannot see it.
    """,
    )
    return


@app.cell
def _(n, start, top):
    b = torch.randn(n, generator=start(0), dtype=torch.float64)
    hidden = torch.randn(n, generator=start(1), dtype=torch.float64)
    hidden = torch.nn.functional.normalize(hidden - b * (b @ hidden) / (b @ b), dim=0)
    others = torch.linspace(0, 0.5, n, dtype=torch.float64)
    others[-1] = 0.9

    def trap(u):
        """`top` along `hidden`, and at right angles to it about 0.9 and what is below 0.5."""
        rest = u - hidden * (hidden @ u)
        image = others * rest
        return image - hidden * (hidden @ image) + top * hidden * (hidden @ u)

    fooled, fresh = (lanczos.lanczos(trap, n, generator=start(seed), want="largest").largest for seed in (0, 2))
    return fooled, fresh


@app.cell(hide_code=True)
def _(fooled, fresh, hessian, problem, top):
    _rows = [
        (
            who,
            run.products,
            f"{run.estimate:.4f}",
            number(run.residual),
            "yes" if run.converged else "no",
            f"{run.value:.4f}",
        )
        for who, run in (("seed 0, known to the maker of the matrix", fooled), ("seed 2, drawn afterwards", fresh))
    ]
    mo.md(f"""
    The largest eigenvalue is {top}.

    {table(("start", "products", "estimate", "residual", "converged", "certified, at most"), _rows)}

    The first row is {"**false**, with every sign of success" if fooled.value < top else "true"}.
    The certificate needs a start that is independent of the matrix. Therefore boundcheck draws it at random. It never
    starts at a gradient, which may depend on the matrix.

    ## Now produce a false bound

    A quadratic training loss with {problem.d} weights and condition number {hessian[-1] / hessian[0]:.0f}, trained by
    gradient descent. Here $q$ is known. Pretend it is not, and take $\\hat q$ from a few steps of power iteration on
    $\\partial_1\\Phi^\\top\\partial_1\\Phi$. Everything else is exact.
    """)
    return


@app.cell(hide_code=True)
def _():
    power_steps = mo.ui.slider(2, 40, value=10, label="steps of power iteration", show_value=True)
    looked_at = mo.ui.slider(20, 200, step=20, value=40, label="a referee checks $t$ up to", show_value=True)
    mo.hstack([power_steps, looked_at], justify="start", gap=2)
    return looked_at, power_steps


@app.cell
def _():
    hessian = torch.logspace(-2, 0, 100, dtype=torch.float64)
    problem = bc.Problem.from_loss(
        lambda w, lam: (hessian * w * w).sum() / 2 - (lam * w).sum(),
        lambda w, lam: ((w - 1) ** 2).sum() / 2,
        torch.zeros(100, dtype=torch.float64),
        torch.ones(100, dtype=torch.float64),
        step_size=2 / 1.01,
    )
    slopes = 1 - 2 / 1.01 * hessian  # the eigenvalues of ∂₁Φ
    right = bc.check(problem, ["itd"], t=200, bounds=["itd"])
    errors = bc.error_curves(problem, ["itd"], t=1000)["itd"][0]
    q = right.constants["paper"]["q"].value
    return errors, hessian, problem, q, right, slopes


@app.cell
def _(looked_at, power_steps, problem, right, slopes, start):
    q_hat = lanczos.power(lambda u: slopes**2 * u, 100, power_steps.value, generator=start())[-1] ** 0.5

    def with_q(side, t):
        """`check` with q̂ in place of q on both balls, taken as it is: nothing is estimated."""
        wrong = {ball: c.replace(replace(c["q"], value=q_hat, side=side)) for ball, c in right.constants.items()}
        return bc.check(problem, ["itd"], t=t, bounds=["itd"], constants=wrong)

    reports = {
        "right": right,
        "looked": with_q("exact", looked_at.value),
        "believed": with_q("exact", 200),
        "doubted": with_q("lower", 200),
        "vouched": bc.check(problem, ["itd"], t=200, bounds=["itd"], known=bc.Constants.given(q=q_hat, side="upper")),
    }
    judged = {name: report.curve("itd").bounds["itd"] for name, report in reports.items()}
    claim = reports["vouched"].constants["paper"]["q"].provenance.how
    promised = bc.bounds["itd"].iterations(reports["believed"].constants["paper"], eps=1e-3).t
    return claim, judged, promised, q_hat, reports


@app.cell(hide_code=True)
def _(errors, promised, q, q_hat, reports):
    _t = np.arange(1, 1001)
    _figure, _axes = panels(height=2.9)
    _axes.semilogy(_t, errors, color=colour_of("itd"), label="error of ITD")
    for _key, _colour, _name in (("right", "black", f"$q={q:.4f}$"), ("believed", ORANGE, f"$\\hat q={q_hat:.4f}$")):
        _values = bc.bounds["itd"].evaluate(reports[_key].constants["paper"], t=_t).values
        _axes.semilogy(_t, _values, "--", color=_colour, label=f"itd (Theorem 2.1) with {_name}")
    _axes.plot([promised], [1e-3], "o", ms=5, color=ORANGE)
    _axes.annotate("promised", (promised, 1e-3), (promised, 2e-5), ha="center", color=ORANGE)
    _axes.set(xlabel="$t$", ylabel=r"$\|g-\nabla f\|$", ylim=(1e-6, None))
    _axes.legend(loc="upper right")
    _real = errors[promised - 1]
    shown(
        _figure,
        rf"""
    $\hat q$ is too small by {100 * (1 - q_hat / q):.2f} %. The false curve looks like a bound at first, because a true
    bound is loose, and then falls below the error. It promises an error of $10^{{-3}}$ at $t$ = {promised}. The
    error there is **{number(_real)}, {number(_real / 1e-3)} times the promise.**
    """,
    )
    return


@app.cell(hide_code=True)
def _(claim, judged, looked_at):
    _said = {
        "right": "$q$ as boundcheck finds it",
        "looked": f"$\\hat q$, believed exact, seen up to $t$ = {looked_at.value}",
        "believed": "$\\hat q$, believed exact, seen up to $t$ = 200",
        "doubted": "$\\hat q$, said to be an estimate from below",
        "vouched": "$\\hat q$, given with `known=`",
    }
    _rows = [(_said[name], f"**{b.verdict.value}**", b.reason or "–") for name, b in judged.items()]
    _second = "passes: that is the danger" if judged["looked"].verdict.value == "holds" else "is caught"
    _third = "is caught, and the proof says where" if judged["believed"].verdict.value == "violated" else "passes too"
    mo.md(f"""
    ## The verdicts of boundcheck

    {table(("source of $q$", "verdict", "reason"), _rows)}

    Read the table from the top. *Holds* is a proof for this problem if $q$ is right. The second row {_second}. The
    third {_third}. In the fourth row nothing is refuted, because an estimate from below cannot refute a theorem. This
    is the honest way to use power iteration.

    In the last row boundcheck tested the given value and refused it. It says about $q$: `{claim}`.
    """)
    return


@app.cell(hide_code=True)
def _(certified, products, q):
    inverse = 1 / (1 - q), 1 / (1 - 0.99 * q)
    _below = products[certified < 1]
    exercises(
        rf"""
    1. The constants of a bound hold $1/(1-q)$, some of them squared. At $q$ = {q:.4f}, take $\hat q$ one per cent too
       small. By which factor does $1/(1-q)$ shrink?
    2. With *spread evenly*: after how many products is the certified value below 1, so that it can be used at all?
    """,
        f"""
    From {inverse[0]:.1f} to {inverse[1]:.1f}: by a factor {inverse[0] / inverse[1]:.2f}. The closer $q$ is to 1, the
    more the result depends on its last digits.
    """,
        f"""
    Of the numbers drawn, with the spectrum and δ chosen above: {_below[0] if _below.size else "none of them"}. A
    certificate above 1 is not a failure. It says that this number of products cannot prove a contraction. Use more.
    """,
    )
    return (inverse,)


@app.cell(hide_code=True)
def _(certified, claim, errors, fooled, fresh, inverse, judged, powers, promised, q, q_hat, ritz, top):
    found = {
        "spectrum": {"top": top, "power": powers.tolist(), "ritz": ritz.tolist(), "certified": certified.tolist()},
        "trap": {"fooled": [fooled.estimate, fooled.value, fooled.converged], "fresh": [fresh.estimate, fresh.value]},
        "q": {"true": q, "power iteration": q_hat, "inverse": list(inverse)},
        "promised": {"t": promised, "error": float(errors[promised - 1])},
        "verdicts": {name: bound.verdict.value for name, bound in judged.items()},
        "said": {"broken": judged["believed"].reason, "claim": claim},
    }
    numbers(found, "Next: **lesson 4**, `4_proof_chain.py`: a true bound is loose. Which proof step makes it loose?")
    return (found,)


if __name__ == "__main__":
    app.run()
