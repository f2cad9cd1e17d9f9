// The measurements: the title, all verdicts, which follow the sliders, and the constants with how each is known.

function buildReport() {
  const { problem, samples } = REPORT;
  byId("picture-title").textContent = "Error over t";
  byId("title").textContent = `${problem.name}: error against bounds`;
  const facts = [`d = ${problem.dim}`, `n = ${problem.hdim}`, problem.dynamics, problem.dtype, problem.seed !== undefined && problem.seed !== null && `seed ${problem.seed}`];
  byId("subtitle").textContent = facts.filter(Boolean).join(", ") + (samples > 1 ? `; charts and tables are for the first of ${samples} values of λ` : "");
  byId("values-hint").hidden = !ROWS.length;
  buildNoSliders();
  buildAnswer();
  buildVerdicts();
  table("measured", ["constant", "value", "how it is known", "how it was obtained", "meaning"], REPORT.constants.map((constant) => [
    make("span", {}, formula(constant.latex), constant.ball ? ` (${constant.ball} ball)` : ""), number(constant.value, 6), constant.side, derivation(constant), constant.meaning]), [1], 2);
  byId("measured-hint").textContent = REPORT.explained
    ? `Unfold how a constant was obtained to see what each operation of your code adds to it. ${REPORT.add_up}`
    : "What each operation of your code adds to a constant: boundcheck constants FILE.py:NAME --explain CONSTANT";
}

/** The text in place of the sliders if no bound depends on them: why, and what to do. */
function buildNoSliders() {
  byId("constants-hint").hidden = !DATA.controls.length;
  byId("reset").hidden = !DATA.controls.length;
  byId("reset").textContent = "Back to the measured values";
  if (DATA.controls.length) return;
  const reasons = REPORT.noSliders.map((text) => make("li", { text }));
  byId("sliders").append(make("div", { id: "no-sliders" },
    make("p", { text: "There are no sliders. Sliders move bounds that depend on constants only, and no such bound applies to this problem." }),
    ...(reasons.length ? [make("p", { text: "Why:" }), make("ul", {}, ...reasons)] : []),
    REPORT.answer.next.length
      ? make("p", {}, "What can help is listed under ", make("a", { href: "#next", text: "What to do next" }), ".")
      : make("p", { text: REPORT.answer.step || "To get sliders, change what these reasons name." }),
    ...(ROWS.length ? [make("p", { text: "The bounds in the table come from the run itself." })] : [])));
}

function buildVerdicts() {
  const every = REPORT.curves.flatMap((curve) => Object.entries(curve.bounds).map(([name, bound]) => ({ method: curve.method, name, ...bound })));
  const applied = every.filter((bound) => bound.verdict !== "not applicable");
  const ratio = (x) => make("span", { class: "of-bounds", text: x === null ? "–" : `×${number(x, 3)}` });
  table("verdicts", ["method", "bound", "verdict", "bound/error, smallest", "largest", "how it is known", "kind", "remark"], applied.map((bound) => [
    bound.method, bound.name, verdictSpan(bound), ratio(bound.best), ratio(bound.worst), make("span", { class: "of-bounds", text: bound.side }), bound.kind, bound.reason]), [3, 4], 3);
  byId("verdicts").hidden = false;
  if (!applied.length) byId("verdicts").querySelector(".scroll").replaceChildren(make("p", { text: "No bound applies to this problem." }));
  const groups = new Map(); // a bound with the same reason for several methods has one line
  for (const { method, name, reason } of every.filter((bound) => bound.verdict === "not applicable")) {
    const key = JSON.stringify([name, reason]);
    groups.set(key, [...(groups.get(key) || []), method]);
  }
  byId("refused").hidden = !groups.size;
  byId("refused").querySelector("summary").textContent = `${new Set([...groups.keys()].map((key) => JSON.parse(key)[0])).size} bounds that do not apply, and why`;
  table("refused", ["bound", "methods", "reason"], [...groups].map(([key, methods]) => [JSON.parse(key)[0], methods.join(", "), JSON.parse(key)[1]]), [], 2);
}

/** The verdict on a bound; if constants were changed, a comparison instead. @param {Object} bound */
function verdictSpan(bound) {
  const row = ROWS.find((row) => row.method === bound.method && row.bound === bound.name);
  const span = make("span");
  refreshers.push(() => {
    const moved = row && isChanged(row);
    span.textContent = moved ? `${withTheseSliders(row)} at t = ${state.t}` : bound.verdict;
    span.className = moved ? (isBelow(row) ? "doubt" : "small") : tone(bound.verdict, bound.violated);
    span.closest("tr")?.classList.toggle("moved", Boolean(moved));
  });
  return span;
}

/** How a constant was obtained; can be expanded to show the contribution of each operation. @param {Object} constant */
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

/**
 * A table that a phone shows as one card for each row: the first `lead` cells side by side, the others below with their heads.
 * @param {string} id @param {string[]} heads @param {(string|Node)[][]} rows @param {number[]} right @param {number} lead
 */
function table(id, heads, rows, right, lead) {
  byId(id).hidden = false;
  const css = (i) => [right.includes(i) && "number", i < lead && "lead"].filter(Boolean).join(" ") || null;
  byId(id).querySelector(".scroll").append(make("table", { class: "cards" },
    make("thead", {}, make("tr", {}, ...heads.map((text, i) => make("th", { scope: "col", class: css(i), text })))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell, i) => make("td", { class: css(i), "data-head": heads[i] }, cell)))))));
}
