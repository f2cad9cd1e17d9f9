// The chosen bound: its statement, and its proof as a waterfall at a t at which the run was traced.

let shownBound = "";

/** @param {Row} row */
function showTheorem(row) {
  if (shownBound === row.bound) return;
  shownBound = row.bound;
  const about = DATA.bounds[row.bound];
  byId("theorem-title").textContent = `${about.title} (${row.bound})`;
  const facts = make("dl");
  const fact = (name, ...what) => what.length && facts.append(make("dt", { text: name }), make("dd", {}, ...what));
  fact("theorem", about.reference);
  fact("paper", about.paper);
  fact("assumes", ...(about.assumptions.length ? [about.assumptions.map(([key, statement]) => `${key}: ${statement}`).join("; ")] : []));
  fact("kind", about.kind);
  fact("where", ...about.where.map((latex) => formula(latex, true)));
  fact("unless given", ...about.unless.map((latex) => formula(latex, true)));
  byId("statement").replaceChildren(formula(about.statement, true), facts,
    make("details", {}, make("summary", { text: "the generated JavaScript" }), make("pre", { tabindex: 0, text: about.code })));
}

/** The trace of a row at the t nearest to the chosen one, or null. @param {Row} row */
function traced(row) {
  const found = REPORT && REPORT.curves.find((curve) => curve.method === row.method).bounds[row.bound];
  if (!found || !found.trace) return null;
  const { t, links } = found.trace;
  let at = 0;
  t.forEach((x, i) => { if (Math.abs(x - state.t) < Math.abs(t[at] - state.t)) at = i; });
  return { t: t[at], links: links.map((link) => ({ ...link, value: link.values[at], broken: link.broken.includes(at) })) };
}

/** The step with the largest slack. @param {{value: number}[]} links */
function loosest(links) {
  const slacks = links.map((link, i) => (i ? link.value / links[i - 1].value : 0));
  return slacks.indexOf(Math.max(...slacks.filter(Number.isFinite)));
}

/** @param {Row} row */
function showProof(row) {
  const trace = traced(row);
  const links = trace ? trace.links : DATA.bounds[row.bound].proof;
  byId("proof").hidden = !links.length;
  if (!links.length) return;
  const list = byId("links");
  list.classList.toggle("plain", !trace);
  if (state.link < 0 || state.link >= links.length) state.link = trace ? loosest(links) : links.length - 1;
  if (trace) {
    const total = links.at(-1).value / links[0].value;
    byId("proof-title").textContent = `Why bound ${row.bound} (${DATA.bounds[row.bound].reference}) ${Math.abs(total - 1) < 1e-3 ? "equals" : `is ${number(total)} times`} the error of ${row.method} at t = ${trace.t}`;
    const near = trace.t === state.t ? "" : ` There is no trace at t = ${state.t}, where the error is rounding or nothing was traced; this is the nearest t.`;
    const moved = isChanged(row) ? " The sliders do not move it: it is about the measured constants." : "";
    byId("proof-hint").textContent = "From the measured error to the bound, on a logarithmic scale. Choose a step to read it." + near + moved;
  } else {
    byId("proof-title").textContent = `Proof of ${row.bound}, step by step`;
    byId("proof-hint").textContent = "Choose a step to read its inequality and what justifies it." +
      (REPORT ? "" : " The page of a problem (boundcheck page lr) shows how much each step loses.");
  }
  const key = `${row.id} ${links.map((link) => link.name).join("|")} ${Boolean(trace)}`;
  if (list.dataset.key !== key) {
    list.dataset.key = key;
    list.replaceChildren(...links.map((link, i) => make("li", {}, make("button", { type: "button", onclick: () => { state.link = i; changed(); } }))));
  }
  const logs = trace ? links.map((link) => Math.log(Math.max(link.value, Number.MIN_VALUE))) : [];
  const sound = !links.some((link) => link.broken);
  const low = Math.min(...logs), span = Math.max(...logs) - low || 1;
  [...list.querySelectorAll("button")].forEach((button, i) => {
    const link = links[i];
    button.setAttribute("aria-pressed", String(i === state.link));
    if (!trace) { button.replaceChildren(link.name); return; }
    button.classList.toggle("broken", link.broken);
    const before = logs[Math.max(0, i - 1)];
    const [from, to] = [Math.min(before, logs[i]), Math.max(before, logs[i])];
    const fill = button.querySelector("i") || make("i");
    fill.style.left = `${(100 * (from - low)) / span}%`;
    fill.style.width = i ? `${(100 * (to - from)) / span}%` : "3px";
    const share = sound ? (logs[i] - before) / (logs.at(-1) - logs[0]) : NaN; // a broken proof has no shares
    const cells = [make("span", { text: link.name + (link.broken ? " — BROKEN" : "") }), make("span", { class: "track", "aria-hidden": "true" }, fill),
      make("span", { class: "number value", "data-value": link.value, text: number(link.value) }),
      make("span", { class: "number slack", text: i ? `×${number(link.value / links[i - 1].value, 3)}` : "" }),
      make("span", { class: "number share", text: i && Number.isFinite(share) ? `${Math.round(100 * share)}%` : "" })];
    button.replaceChildren(...cells);
  });
  showLink(links, Boolean(trace), row);
}

/** @param {any[]} links @param {boolean} measured @param {Row} row */
function showLink(links, measured, row) {
  const link = links[state.link];
  const key = `${row.id} ${state.link} ${measured}`;
  const panel = byId("link");
  if (panel.dataset.key !== key) {
    panel.dataset.key = key;
    const uses = link.uses.map(([latex, meaning]) => make("li", {}, formula(latex), `: ${meaning}`));
    const first = DATA.bounds[row.bound].statement.split("\\le")[0];
    panel.replaceChildren(make("h3", { text: `${state.link + 1}. ${link.name}` }),
      ...(link.formula ? [make("div", { class: "formula wrapped", tabindex: 0, role: "group", "aria-label": "formula" },
        formula(state.link ? `${first}\\le \\cdots \\le ${link.formula}` : link.formula))] : []),
      make("p", {}, make("strong", { text: state.link ? "because " : "" }), make("span", { id: "because", text: link.because })),
      ...(uses.length ? [make("p", { text: "It brings in" }), make("ul", {}, ...uses)] : []), make("p", { id: "loss" }));
  }
  const loss = byId("loss");
  loss.className = measured && link.broken ? "bad" : "";
  if (!measured) loss.textContent = "";
  else if (link.broken) loss.textContent = "The value falls here, so this step is false: a constant or an assumption that it uses is wrong.";
  else {
    const slack = state.link ? link.value / links[state.link - 1].value : 1;
    const why = slack < 1 - 5e-4 ? " No step of a proof makes it smaller: here that is rounding." : "";
    loss.textContent = state.link ? `This step makes the bound ${number(slack)} times as large at this t.${why}` : "";
  }
}
