// The first screen of a report: the verdict (not while sliders are moved), a line for each method, and what to do next.

/** In percent of ‖∇f‖. @param {?number} x */
const percent = (x) => (x === null ? "not known" : `${number(100 * x, 3)}%`);

/** @param {?number} degrees */
const angle = (degrees) => (degrees === null || degrees >= 180 ? "not known" : degrees < 0.01 ? "below 0.01°" : `≤ ${number(degrees, 3)}°`);

function buildAnswer() {
  const { answer, verdict, violated, refused } = REPORT;
  const box = byId("verdict"), measured = make("div", { id: "sentence" });
  const [word, ...rest] = answer.sentence.split(": ");
  measured.append(make("strong", { text: word }), rest.length ? `: ${rest.join(": ")}` : "");
  if (answer.step) measured.append(make("p", { text: answer.step }));
  if (answer.diverging.length) measured.append(make("p", { class: "bad", text: `diverging: ${answer.diverging.join(", ")}` }));
  const bounds = REPORT.curves.flatMap((curve) => Object.entries(curve.bounds).map(([name, bound]) => ({ method: curve.method, name, ...bound })));
  for (const bound of bounds.filter((bound) => bound.violated)) measured.append(make("p", { text: `${bound.name} on ${bound.method}: ${bound.reason}` }));
  box.hidden = false;
  box.append(measured, suspended());
  for (const sentence of answer.refuted) box.append(make("p", { class: "bad", text: `not used: ${sentence}` }));
  for (const [method, why] of Object.entries(refused)) box.append(make("p", { text: `${method} was not run: ${why}` }));
  refreshers.push(() => {
    const moved = changedConstants().length > 0;
    box.className = moved ? "moved" : answer.diverging.length && !violated ? "doubt" : tone(verdict, violated);
    measured.hidden = moved;
  });
  const heads = ["method", "relative error", "angle", "descent direction", "run", "best bound", "t for an error of 1%", "what blocks a proof"];
  const blocked = answer.methods.some((one) => one.blocked);
  table("answer", heads.slice(0, blocked ? 8 : 7), answer.methods.map((one) => answerCells(one).slice(0, blocked ? 8 : 7)), [], 1);
  if (REPORT.samples > 1) byId("answer-hint").append(` Errors are means over ${REPORT.samples} values of λ; angle and descent direction are for the first.`);
  refreshers.push(() => byId("answer").classList.toggle("moved", changedConstants().length > 0));
  byId("next").hidden = !answer.next.length;
  byId("next").querySelector("ul").append(...answer.next.map((text) => make("li", { text })));
}

/** @param {Object} one the summary of a method */
function answerCells(one) {
  const { best } = one;
  const line = swatch("", [], 3);
  refreshers.push(() => line.firstChild.setAttribute("stroke", methodColour(one.method)));
  const name = make("button", { type: "button", class: "name", text: one.method, title: "show this method below", onclick: () => pick(one.method) });
  const descent = { true: "yes", false: "no", null: "not known" }[String(one.descent)];
  const needed = one.needed === null ? "not known" : `${one.needed}${one.measured ? ", measured" : ", estimated from the end of the run"}`;
  const verdictOf = (text, css) => make("span", { class: css, text });
  return [
    make("span", {}, line, name, make("span", { class: "small", text: ` ${one.steps}` })),
    make("span", {}, percent(one.relative), make("div", { class: "small", text: `error ${number(one.error)}, ${one.known}` })),
    angle(one.angle),
    verdictOf(descent, { yes: "good", no: "bad" }[descent] || "small"),
    verdictOf(one.course, { diverges: "bad", stalls: "doubt", falls: "doubt" }[one.course] || "good"),
    best ? bestBound(best) : "none applies",
    make("span", {}, needed, one.guaranteed === null ? "" : make("div", { class: "small", text: `guaranteed: ${one.guaranteed}` })),
    make("span", { class: "small", text: one.blocked || "nothing: a bound is proved" }),
  ];
}

/** @param {Object} best */
function bestBound(best) {
  const grade = best.ratio === null ? [] : [make("span", { class: `grade ${best.grade}`, text: best.grade }), ` ×${number(best.ratio, 3)}`];
  return make("span", { class: "of-bounds" }, `${best.name} `, ...grade, make("div", { class: "small", text: `${best.known}, ${best.kind}` }));
}

/** The sentence in place of the verdict while constants are not as measured. */
function suspended() {
  const names = make("span"), count = make("span");
  const button = make("button", { type: "button", text: "Back to the measured values", onclick: () => { reset(); byId("reset").focus({ preventScroll: true }); } });
  const box = make("div", { id: "suspended", role: "status" }, make("strong", { text: "constants changed" }),
    ": the verdicts below are not about these values. You changed ", names, ". ", count, " ", button);
  refreshers.push(() => {
    const moved = changedConstants();
    box.hidden = !moved.length;
    byId("constants-hint").textContent = moved.length
      ? "Changed by hand: no verdict is about these values."
      : "As measured. The sliders move the bounds; the errors stay those of the run.";
    const affected = ROWS.filter(isChanged), below = affected.filter((row) => isBelow(row));
    count.textContent = `With these sliders, ${below.length} of ${affected.length} bounds that depend on them ${below.length === 1 ? "is" : "are"} below the error at t = ${state.t}.`;
    const key = moved.map((control) => control.key).join(" ");
    if (names.dataset.key === key) return;
    names.dataset.key = key;
    names.replaceChildren(...moved.flatMap((control, i) => [i ? ", " : "", formula(control.latex), control.note && ` ${control.note}`]));
  });
  return box;
}
