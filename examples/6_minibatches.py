"""Lesson 6: minibatches. Why a hypergradient from one minibatch is biased, and how bias and variance fall."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="6 Bias and variance with minibatches")


with app.setup(hide_code=True):
    from math import comb

    import marimo as mo
    import numpy as np
    import torch
    from lesson import exercises, numbers, panels, shown, table

    import boundcheck as bc
    from boundcheck.views.figures.canvas import BLUE, GREY, ORANGE, VERMILLION, number


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 6 · Why is a hypergradient from one minibatch biased, and how does the bias fall?

    With many training examples, every step sees only a few of them, a minibatch. The map of a step becomes random:
    $\hat\Phi(w,\lambda,\zeta)$ with a minibatch $\zeta$. On average it is the map of all examples,
    $\Phi=\mathbb E\,\hat\Phi$. So the hypergradient $g$ is random, and its mean square error has parts:

    $$\mathbb E\|g-\nabla f\|^2=\underbrace{\|\mathbb E g-\nabla f\|^2}_{\text{bias, squared}}
    +\underbrace{\mathbb E\,\mathbb V[g\,|\,w_t]}_{\text{linear solver, last minibatch}}
    +\underbrace{\mathbb V\bigl[\mathbb E[g\,|\,w_t]\bigr]}_{\text{lower level}}$$

    An average over many runs removes variance. It does not remove bias.

    ## A problem where all means are known

    One weight, one hyperparameter $\lambda=1$, and examples of two kinds, $x=+1$ and $x=-1$, equally many:

    $$\Phi_x(w,\lambda)=(q+rx)\,w+(1+sx)\,\lambda,\qquad E(w)=\tfrac12w^2+\tfrac\kappa6w^3.$$

    The map on all examples is $qw+\lambda$. A minibatch of $b$ examples, drawn with replacement, has the mean of
    $b$ signs in the place of $x$. Moments of $w_t$ and $v_k$ follow from those one step before. So below **nothing is
    sampled**: every mean is exact.

    **Predict:** a hypergradient needs minibatches in three places: for the steps of $w$, for the steps of $v$, and for
    the last product $\partial_2\hat\Phi^\top v_k$. May one minibatch serve for all three?
    """)
    return


@app.cell(hide_code=True)
def _():
    batch = mo.ui.slider(1, 32, value=1, label="examples in a minibatch, $b$", show_value=True)
    eta = mo.ui.slider(0.1, 1.0, step=0.1, value=0.5, label="constant step $\\eta$", show_value=True)
    mo.hstack([batch, eta], justify="start", gap=2)
    return batch, eta


@app.cell
def _():
    q, r, s, kappa = 0.5, 0.2, 0.5, 1.0
    w_star = 1 / (1 - q)

    def grad_E(w):
        return w + kappa / 2 * w**2

    true = grad_E(w_star) / (1 - q)  # ∂₂Φ = 1

    def signs(b):
        """The mean of b signs: its values and their probabilities."""
        heads = np.arange(b + 1)
        return (2 * heads - b) / b, np.array([comb(b, h) for h in heads]) / 2.0**b

    def exact(b, steps):
        """Bias, E V[g|w_t] and V[E[g|w_t]] at t = k = 0, 1, …, with independent minibatches."""
        x, p = signs(b)
        w = np.array([1.0, 0, 0, 0, 0])  # E wᵖ, from w_0 = 0
        u = np.array([1.0, 0, 0])  # E uᵖ, where v = ∇E(w)·u
        rows = []
        for step in (*steps, 0.0):
            mean_b, mean_b2 = w[1] + kappa / 2 * w[2], w[2] + kappa * w[3] + kappa**2 / 4 * w[4]
            last = 1 + s**2 * (p @ x**2)  # E(1 + sx)²
            of_w = u[1] ** 2 * (mean_b2 - mean_b**2)
            rows.append((u[1] * mean_b - true, (last * u[2] - u[1] ** 2) * mean_b2, of_w))
            a, c, one = 1 - step + step * (q + r * x), step * (1 + s * x), step + 0 * x
            w = np.array([sum(comb(n, i) * (p @ (a**i * c ** (n - i))) * w[i] for i in range(n + 1)) for n in range(5)])
            u = np.array(
                [sum(comb(n, i) * (p @ (a**i * one ** (n - i))) * u[i] for i in range(n + 1)) for n in range(3)]
            )
        return np.array(rows).T

    def one_minibatch(b, steps):
        """The bias at t = k = 0, 1, … if one minibatch is used for everything."""
        x, p = signs(b)
        w, u, rows = 0 * x, 0 * x, []
        for step in (*steps, 0.0):
            rows.append(p @ ((1 + s * x) * u * grad_E(w)) - true)
            w, u = w + step * ((q + r * x) * w + 1 + s * x - w), u + step * ((q + r * x) * u + 1 - u)
        return np.array(rows)

    T = 200
    t = np.arange(T + 1)
    decreasing = bc.StepSchedule.decreasing(2 / (1 - q**2), 2 / (1 - q**2))
    falling = [decreasing.at(i) for i in range(T)]
    return T, decreasing, exact, falling, one_minibatch, t, true


@app.cell
def _(T, batch, eta, exact, falling, one_minibatch):
    with_constant = exact(batch.value, [eta.value] * T)
    with_decreasing = exact(batch.value, falling)
    reused = one_minibatch(batch.value, [eta.value] * T)
    return reused, with_constant, with_decreasing


@app.cell(hide_code=True)
def _(T, batch, decreasing, eta, reused, t, true, with_constant, with_decreasing):
    _figure, (_left, _right) = panels(2, height=2.9)
    _left.loglog(t[1:], np.abs(reused[1:]), color=VERMILLION, label="one minibatch for everything")
    _left.loglog(t[1:], np.abs(with_constant[0, 1:]), color=BLUE, label=f"independent, $\\eta={eta.value:g}$")
    _left.loglog(t[1:], np.abs(with_decreasing[0, 1:]), color=ORANGE, label="independent, decreasing steps")
    _left.set(xlabel="$t=k$", title=r"bias $|\mathbb{E}\,g-\nabla f|$", ylim=(1e-5, None))
    _left.legend(loc="lower left")
    for _parts, _colour in ((with_constant, BLUE), (with_decreasing, ORANGE)):
        _right.loglog(t[1:], _parts[2, 1:], color=_colour)
        _right.loglog(t[1:], _parts[1, 1:], "--", color=_colour)
    _right.plot([], [], color=GREY, label="lower level")
    _right.plot([], [], "--", color=GREY, label="linear solver, last minibatch")
    _right.set(xlabel="$t=k$", title="variance")
    _right.legend(loc="lower left")
    shown(
        _figure,
        f"""
    $\\nabla f$ = {number(true)}, $b$ = {batch.value}; the decreasing steps are
    ${decreasing.beta:.3g}/({decreasing.gamma:.3g}+i)$. A dip of the bias is a change of its sign.

    **One minibatch for everything** (left, red): after {T} steps the bias is {number(abs(reused[-1]))}, and more steps
    do not help. It computes the hypergradient of a problem with $b$ examples, exactly, and then averages over such
    problems. A hypergradient is not linear in the map: $w(\\lambda)$, $v$ and $\\partial_2\\hat\\Phi$ err together, and
    the mean of a product is not the product of the means.

    **Independent minibatches, constant steps** (blue): the bias stops at {number(abs(with_constant[0, -1]))}.
    $w_t$ goes on moving around $w(\\lambda)$, and $\\nabla E$ is curved, so the mean of $\\nabla E(w_t)$ is not
    $\\nabla E(w(\\lambda))$. Theorem 3.1 of Grazzi, Pontil and Salzo (2021) bounds the bias by
    $c_1\\sqrt{{\\rho_t}}+\\dots$ with $\\rho_t\\ge\\mathbb E\\|w_t-w(\\lambda)\\|^2$, and
    with constant steps $\\rho_t$ has a floor.

    **Decreasing steps** (orange): the bias falls further, to {number(abs(with_decreasing[0, -1]))}. The variance of the
    lower level (right, solid) falls like $1/t$, which is Theorem 4.2. Compare the blue line, which has a floor in
    proportion to $\\eta$.

    **The dashed lines** do not go to 0 for any steps. Their floor is the last minibatch: $\\partial_2\\hat\\Phi$
    depends on the examples here ($s\\ne0$), and it is used once. This is the term $m_2$ of Theorem 3.4. It is absent
    where examples and λ enter in separate terms, for instance with a penalty.

    ## What a larger batch changes

    **Predict:** $b$ is doubled. Which of the three parts is halved?
    """,
    )
    return


@app.cell
def _(T, exact, falling):
    sizes = np.array([1, 2, 4, 8, 16, 32])
    by_batch = {steps: np.array([exact(int(b), falling[:steps])[:, -1] for b in sizes]).T for steps in (10, T)}
    return by_batch, sizes


@app.cell(hide_code=True)
def _(T, by_batch, sizes):
    _figure, _axes = panels(2, height=2.7, sharey=True)
    for _panel, (_steps, _parts) in zip(_axes, by_batch.items(), strict=True):
        _panel.loglog(sizes, _parts[0] ** 2, "o-", ms=3, color=VERMILLION, label="bias, squared")
        _panel.loglog(sizes, _parts[1], "s--", ms=3, color=BLUE, label="linear solver, last minibatch")
        _panel.loglog(sizes, _parts[2], "^-", ms=3, color=ORANGE, label="lower level")
        _panel.set(xlabel="examples in a minibatch, $b$", title=f"decreasing steps, $t=k={_steps}$")
    _axes[0].legend(loc="lower left")
    _few, _many = (by_batch[steps] for steps in (10, T))
    shown(
        _figure,
        f"""
    The two variances fall like $1/b$: from $b=1$ to $32$ by the factors {_few[1, 0] / _few[1, -1]:.1f} and
    {_few[2, 0] / _few[2, -1]:.1f} after 10 steps, {_many[1, 0] / _many[1, -1]:.1f} and {_many[2, 0] / _many[2, -1]:.1f}
    after {T}. The bias has two sources. One is the distance that the mean of $w_t$ still has to go, and no
    batch shortens it: more steps do. The other is the noise of $w_t$ where $\\nabla E$ is curved. After
    10 steps the bias at $b=32$ is still {number(abs(_few[0, -1]))}.

    **So look at the parts before you spend anything.** Large bias: more steps. Large variance of the lower level:
    smaller steps, or a larger batch. Large variance from the last minibatch: only a larger batch.

    ## The same on a problem of your own

    Here nothing is known in advance: a regression with a penalty, written in plain PyTorch. `data=` and `batch=` say
    what a minibatch is. `check_stochastic` finds the constants of the noise from the data, runs 300 times, and compares
    each mean, with its confidence interval, with every bound.
    """,
    )
    return


@app.cell(hide_code=True)
def _():
    own_batch = mo.ui.slider(1, 16, value=4, label="examples in a minibatch", show_value=True)
    own_step = mo.ui.slider(0.1, 1.0, step=0.1, value=0.5, label="constant step $\\eta$", show_value=True)
    own_t = mo.ui.slider(2, 60, value=20, label="steps $t=k$", show_value=True)
    mo.hstack([own_batch, own_step, own_t], justify="start", gap=2)
    return own_batch, own_step, own_t


@app.cell
def _(own_batch, own_step, own_t):
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(40, 2, generator=generator, dtype=torch.float64)
    y = X @ torch.tensor([1.0, -1.0], dtype=torch.float64) + 0.1 * torch.randn(
        40, generator=generator, dtype=torch.float64
    )

    def inner(w, lam, minibatch):
        X, y = minibatch
        return ((X @ w - y) ** 2).mean() / 2 + (lam.exp() * w**2).sum() / 2

    def outer(w, lam):
        return ((w - torch.tensor([1.0, -1.0])) ** 2).sum() / 2

    problem = bc.Problem.from_loss(
        inner, outer, torch.zeros(2).double(), torch.zeros(2).double(), data=(X, y), batch=own_batch.value
    )
    report = bc.check_stochastic(
        problem, t=own_t.value, runs=300, points=2, steps=bc.StepSchedule.constant(own_step.value)
    )
    return (report,)


@app.cell(hide_code=True)
def _(report):
    _curve = report.curve("sid")
    _bounds = [bound for bound in _curve.bounds.values() if bound.applies]
    _rows = [
        (
            f"`{b.name}`",
            b.quantity.words,
            number(_curve.means[b.quantity.value].value[-1]),
            f"{number(_curve.means[b.quantity.value].lower[-1])} … {number(_curve.means[b.quantity.value].upper[-1])}",
            "–" if np.isnan(b.values[-1]) else number(b.values[-1]),
            f"**{b.verdict.value}**",
        )
        for b in _bounds
    ]
    _why = next((b.reason for b in _bounds if b.more_runs), "")
    mo.md(f"""
    {table(("bound", "quantity at the last step", "estimate", "interval", "bound", "verdict"), _rows)}

    All intervals together are right with probability {report.level:.1%}. They are proved: whatever is drawn, $w_i$
    stays within {number(report.radius or float("inf"))} of $w(\\lambda)$, so the numbers whose mean is taken are
    bounded. *Holds with high probability* says that the whole interval is below the bound. *Consistent*
    says that the estimate is below, but the interval is not yet{f" ({_why})" if _why else ""}.
    """)
    return


@app.cell(hide_code=True)
def _(T, exact, one_minibatch):
    doubled = [abs(one_minibatch(b, [0.5] * T)[-1]) for b in (8, 16)]
    floors = [exact(1, [step] * T)[2, -1] for step in (0.2, 0.1)]
    exercises(
        r"""
    1. One minibatch for everything: how does its bias change if $b$ is doubled?
    2. Constant steps: what happens to the floor of the variance of the lower level if $\eta$ is halved?
    """,
        f"""
    From {number(doubled[0])} with $b=8$ to {number(doubled[1])} with $b=16$: a factor {doubled[0] / doubled[1]:.2f}.
    The bias is a covariance of means over the same minibatch, and falls like $1/b$. It never vanishes with $t$ or $k$.
    """,
        f"""
    From {number(floors[0])} at $\\eta=0.2$ to {number(floors[1])} at $\\eta=0.1$, a factor {floors[0] / floors[1]:.2f}.
    Theorem 4.1 has the floor $\\eta\\sigma_1/(1-q^2)$. But smaller steps need more of them to arrive.
    """,
    )
    return doubled, floors


@app.cell(hide_code=True)
def _(T, by_batch, doubled, floors, report, reused, true, with_constant, with_decreasing):
    found = {
        "true": true,
        "T": T,
        "reused": [float(reused[T // 2]), float(reused[-1])],
        "constant": with_constant[:, [T // 2, -1]].tolist(),
        "decreasing": with_decreasing[:, [T // 2, -1]].tolist(),
        "batches": {str(steps): parts.tolist() for steps, parts in by_batch.items()},
        "doubled": [float(x) for x in doubled],
        "floors": [float(x) for x in floors],
        "verdicts": {bound.name: bound.verdict.value for bound in report.curve("sid").bounds.values()},
        "ball_doubt": report.ball_doubt,
    }
    numbers(found, "This was the last lesson. `bc.plan_stochastic` chooses steps, $t$, $k$ and batch for an error.")
    return (found,)


if __name__ == "__main__":
    app.run()
