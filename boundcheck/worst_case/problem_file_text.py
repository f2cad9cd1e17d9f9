"""The text of the problem files that `problem_file.py` writes."""

HEAD = '''"""{title}

The worst instance that `{command}` found: error/bound = {ratio}
(in 50 digits; error {error}, bound {bound}).
{how}

    Phi(w, lam) = w* + U phi(x) + lam U_Z zeta(V_Z x),    x = w - w*, at lam = 0, from w_0 = 0
    E(w, lam)   = {outer_text}

phi', zeta, gamma = Gamma' and chi are ramps, F(s) = F* + a_plus min(s+, m_plus) + a_minus min(s-, m_minus) in each
coordinate; U, U_Z, V_Z, V_g are rotations, e the first row of one. The constants and why they are right: docs/worst.md.
"""

import torch

import boundcheck as bc

D, Q = {d}, {q!r}
T, K = {t}, {k}


def vector(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


W_STAR = vector{w_star}
# F*, a_plus, a_minus, m_plus, m_minus
{ramps}

'''

BODY = '''
def ramp(F, s):
    star, a_plus, a_minus, m_plus, m_minus = F
    return star + a_plus * torch.minimum(s.relu(), m_plus) + a_minus * torch.minimum((-s).relu(), m_minus)


def integral(F, s):
    """Return the integral of the ramp from 0 to s."""
    star, a_plus, a_minus, m_plus, m_minus = F
    right, left = s.relu(), (-s).relu()
    c, b = torch.minimum(right, m_plus), torch.minimum(left, m_minus)
    return star * s + a_plus * c * (right - c / 2) - a_minus * b * (left - b / 2)


def integral_twice(F, s):
    star, a_plus, a_minus, m_plus, m_minus = F

    def cubic(side, m):
        c = torch.minimum(side, m)
        return c**3 / 6 + (side - c) * c * side / 2

    return star * s**2 / 2 + a_plus * cubic(s.relu(), m_plus) + a_minus * cubic((-s).relu(), m_minus)


def rotation(*angles):
    """Return the product of rotations in the planes of two axes."""
    R, planes = torch.eye(D, dtype=torch.float64), [(i, j) for i in range(D) for j in range(i + 1, D)]
    for (i, j), angle in zip(planes, vector(*angles)):
        c, s = angle.cos(), angle.sin()
        R[[i, j]] = torch.stack((c * R[i] - s * R[j], s * R[i] + c * R[j]))
    return R


'''

FUNCTIONS = '''

def phi(w, lam):
    x = w - W_STAR
    return W_STAR + U @ integral(PHI, x) + lam[0] * (U_Z @ ramp(ZETA, V_Z @ x))

{inner}
def outer(w, lam):
    {outer}


def reach(V, region):
    """Return the least and the largest values of the coordinates of Vx on a ball."""
    centre = V @ (region.point - W_STAR)
    return centre - region.radius, centre + region.radius


def size(F, ends):
    """Return the norm of the largest |F| in each coordinate. A ramp is monotone on each side of 0."""
    return torch.stack([ramp(F, s).abs() for s in (*ends, 0 * F[0])]).amax(0).norm()


def slope(F):
    return torch.maximum(F[1].abs(), F[2].abs()).max()


ENDS = torch.stack((PHI[0], PHI[0] + PHI[1] * PHI[3], PHI[0] + PHI[2] * PHI[4]))  # the values of phi'


def everywhere(lam):
    values = {{"q": ENDS.abs().max(), "D": W_STAR.norm(){everywhere}}}
    return [bc.closed_form(name, value, "ramps", exact=True) for name, value in values.items()]


def on(lam, region):
    slopes = {{"nu_1": slope(PHI), "nu_2": slope(ZETA){on}}}
    sizes = {{"L_Phi": size(ZETA, reach(V_Z, region)), "L_E": {L_E}}}
    return [
        *(bc.closed_form(name, value, "slope of a ramp", region, exact=True) for name, value in slopes.items()),
        *(bc.closed_form(name, value, "over a box", region, exact=D == 1) for name, value in sizes.items()),
    ]


problem = bc.Problem(
    name="worst-{name}",
    w0=torch.zeros(D, dtype=torch.float64),
    lam=torch.zeros(1, dtype=torch.float64),
    phi_at=phi,
    outer_at=outer,{more}
    symmetric={symmetric},
    contraction=lambda lam: ENDS.abs().max(),
    known=bc.ClosedForms(everywhere, on),
)
'''

INNER = """
def inner(w, lam):
    x = w - W_STAR
    return x @ x / 2 - integral_twice(PHI, x).sum() - lam[0] * integral(ZETA, V_Z @ x).sum()

"""

OWN_RUN = '''

def run():
    """{what}"""
    from torch.func import grad, jacrev

    lam, eye = problem.lam, torch.eye(D, dtype=torch.float64)

    def linearised(w):
        A = eye - jacrev(phi)(w, lam)
        return A, jacrev(phi, 1)(w, lam)[:, 0], grad(outer)(w, lam), grad(outer, 1)(w, lam)[0]

    def solved(w):
        A, Z, b, c = linearised(w)
        return torch.linalg.solve(A.T, b), Z, c

    v, Z, c = solved(W_STAR)
    exact = c + Z @ v
    {iterate}
    v, Z, c = solved(w)
    {solve}
    return float(abs(c + Z @ v - exact))


if __name__ == "__main__":
    print(f"error {{run():.12g}}, and the inequality says at most {bound}")
'''

OUTER = "x = w - W_STAR\n    return integral(GAMMA, V_g @ x).sum() + lam[0] * ramp(CHI, (E @ x).reshape(1))[0]"
SIZE_OF_ELL = "(1 - ENDS.min()) * (region.radius + (region.point - W_STAR).norm())"
SIZE_OF_GAMMA = "size(GAMMA, reach(V_g, region))"
