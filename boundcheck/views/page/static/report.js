// What was measured: the verdict, which the sliders suspend, all verdicts, and the constants with their sides.

function buildReport() {
  const { problem, verdict, violated, samples, curves } = REPORT;
  byId("picture-title").textContent = "Error over t";
  byId("title").textContent = `${problem.name}: error against bounds`;
  const facts = [`d = ${problem.dim}`, `n = ${problem.hdim}`, problem.dynamics, problem.dtype, problem.seed !== undefined && problem.seed !== null && `seed ${problem.seed}`];
  byId("subtitle").textContent = facts.filter(Boolean).join(", ") + (samples > 1 ? `; the first of ${samples} values of λ` : "");
  byId("constants-hint").hidden = false;
  byId("constants").hidden = !DATA.controls.length;
  byId("values-hint").hidden = !ROWS.length;
  const all = curves.flatMap((curve) => Object.entries(curve.bounds).map(([name, bound]) => ({ method: curve.method, name, ...bound })));
  const applied = all.filter((bound) => bound.verdict !== "not applicable");
  const counts = new Map();
  for (const bound of applied) counts.set(bound.verdict, (counts.get(bound.verdict) || 0) + 1);
  const words = applied.length ? `of ${applied.length} bounds that apply, ${[...counts].map(([name, n]) => `${n} ${name}`).join(", ")}` : "no bound applies";
  const box = byId("verdict");
  box.hidden = false;
  const measured = make("div", {}, make("strong", { text: verdict }), make("span", { text: `: ${words}` }));
  box.append(measured, suspended());
  refreshers.push(() => {
    const changed = changedConstants().length > 0;
    box.className = changed ? "doubt" : tone(verdict, violated);
    measured.hidden = changed;
  });
  for (const bound of applied.filter((bound) => bound.violated)) measured.append(make("p", { text: `${bound.name} on ${bound.method}: ${bound.reason}` }));
  for (const [method, why] of Object.entries(REPORT.refused)) box.append(make("p", { text: `${method} was not run: ${why}` }));
  table("verdicts", ["method", "bound", "kind", "verdict", "bound/error, least", "largest", "side", "remark"], all.map((bound) => [
    bound.method, bound.name, bound.kind, make("span", { class: bound.verdict === "not applicable" ? "small" : tone(bound.verdict, bound.violated), text: bound.verdict }),
    bound.best === null ? "–" : `×${number(bound.best, 3)}`, bound.worst === null ? "–" : `×${number(bound.worst, 3)}`,
    bound.verdict === "not applicable" ? "" : bound.side, bound.reason]), [4, 5]);
  table("measured", ["constant", "value", "side", "how", "meaning"], REPORT.constants.map((constant) => [
    make("span", {}, formula(constant.latex), constant.ball ? ` (${constant.ball} ball)` : ""), number(constant.value, 6), constant.side, derivation(constant), constant.meaning]), [1]);
  byId("measured-hint").textContent = REPORT.explained
    ? `Unfold how a constant was obtained to see what each operation of your code adds to it. ${REPORT.add_up}`
    : "What each operation of your code adds to a constant: boundcheck constants FILE.py:NAME --explain CONSTANT";
}

/** How a constant was obtained; unfolds into what each operation adds to it. @param {Object} constant */
function derivation(constant) {
  const doubt = constant.noProof ? [make("p", { class: "small doubt", text: `not proved: ${constant.noProof}` })] : [];
  if (!constant.explain) return make("div", {}, constant.how, ...doubt);
  const { quantity, remark, contributions } = constant.explain;
  const smallest = quantity.includes("smallest");
  const value = (x) => (x === null ? (smallest ? "−∞" : "∞") : number(x, 3));
  const rows = contributions.map((part) => make("tr", {},
    make("td", { class: "number", text: value(part.value) }), make("td", { class: "number", text: value(part.at_centre) }),
    make("td", {}, make("strong", { text: part.operation }), ` ${part.line}${part.count > 1 ? ` ×${part.count}` : ""}`,
      make("div", { class: "small", text: part.note }), part.hint ? make("div", { class: "small doubt", text: part.hint }) : "")));
  const heads = [["adds", "number"], ["at the centre", "number"], ["operation", null]].map(([text, css]) => make("th", { scope: "col", class: css, text }));
  return make("div", {}, make("details", { class: "why" }, make("summary", { text: constant.how }),
    make("p", { class: "small", text: [quantity, remark].filter(Boolean).join("; ") }),
    make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows))), ...doubt);
}

/** What stands in the place of the verdict while constants are not as measured. */
function suspended() {
  const names = make("span"), button = make("button", { type: "button", text: "Reset", onclick: () => { reset(); byId("reset").focus({ preventScroll: true }); } });
  const box = make("div", { id: "suspended", role: "status" }, make("strong", { text: "constants changed" }), ": verdicts are for the measured values; not as measured: ", names, " ", button);
  refreshers.push(() => {
    const found = changedConstants();
    box.hidden = !found.length;
    byId("constants-hint").textContent = found.length
      ? "Changed by hand: no verdict is about these values. Reset gives those that were measured."
      : "As measured. The sliders move the bounds; the errors stay those of the run.";
    const key = found.map((control) => control.key).join(" ");
    if (names.dataset.key === key) return;
    names.dataset.key = key;
    names.replaceChildren(...found.flatMap((control, i) => [i ? ", " : "", formula(control.latex), control.note && ` ${control.note}`]));
  });
  return box;
}

/** @param {string} id @param {string[]} heads @param {(string|Node)[][]} rows @param {number[]} right */
function table(id, heads, rows, right) {
  byId(id).hidden = false;
  const css = (i) => (right.includes(i) ? "number" : null);
  byId(id).querySelector(".scroll").append(make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((text, i) => make("th", { scope: "col", class: css(i), text })))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell, i) => make("td", { class: css(i) }, cell)))))));
}
