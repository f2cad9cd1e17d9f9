// The sliders: a range on a suitable scale beside a field for the exact number.

const STEPS = 1000;
const refreshers = [];

/** The position of a value on the slider. @param {Control} control @param {number} value */
function positionOf(control, value) {
  const exponent = control.scale === "gap" ? -Math.log10(1 - value) : Math.log10(value);
  const place = (exponent - control.low) / (control.high - control.low);
  return Math.round(STEPS * Math.min(1, Math.max(0, place || 0)));
}

/** The value at a position of the slider, in three digits. @param {Control} control @param {number} position */
function valueOf(control, position) {
  const exponent = control.low + ((control.high - control.low) * position) / STEPS;
  if (control.scale === "gap") return 1 - Number((10 ** -exponent).toPrecision(3));
  if (control.zero && position === 0) return 0;
  return Math.max(control.least, Number((10 ** exponent).toPrecision(3)));
}

/** A value in six digits; near 1, in enough digits for the distance from 1. @param {Control} control @param {number} value */
function shortened(control, value) {
  const nines = control.scale === "gap" ? Math.floor(-Math.log10(1 - value)) : 0;
  return Number(value.toPrecision(Math.min(17, Math.max(6, nines + 4))));
}

/**
 * Says beside a field why what is typed does not count. Once the field is left it shows again what counts; the message stays.
 * @param {HTMLInputElement} field @param {HTMLInputElement} range @param {string} latex @param {() => string} domain
 * @param {() => string} current @param {(text: string) => boolean} accept takes it if it counts
 */
function guard(field, range, latex, domain, current, accept) {
  const complaint = make("span", { class: "complaint bad", role: "alert", hidden: true });
  const hide = () => { complaint.hidden = true; field.removeAttribute("aria-invalid"); };
  field.addEventListener("input", () => {
    if (field.value !== "" && accept(field.value)) { hide(); return; }
    const typed = field.validity.badInput ? "not a number" : field.value === "" ? "nothing" : field.value;
    field.setAttribute("aria-invalid", "true");
    complaint.replaceChildren(formula(latex), ` must be ${domain()} (got ${typed}). The curves keep `, formula(latex), ` = ${current()}.`);
    complaint.hidden = false;
  });
  field.addEventListener("blur", () => { field.removeAttribute("aria-invalid"); changed(); });
  range.addEventListener("input", hide);
  byId("reset").addEventListener("click", hide);
  return complaint;
}

/** The numbers that a control accepts, in words. @param {Control} control */
function domainOf(control) {
  const least = control.zero || control.least > 0 ? `at least ${control.least}` : `above ${control.least}`;
  return `a number ${least}${control.below === null ? "" : ` and below ${control.below}`}`;
}

/** @param {Control} control */
function slider(control) {
  const id = `c-${control.key}`;
  const spoken = `${control.name.replaceAll("_", " ")}: ${control.meaning}${control.note ? ", " + control.note : ""}`;
  const range = make("input", { type: "range", id, min: 0, max: STEPS, step: 1, "aria-label": spoken });
  const field = make("input", { type: "number", step: "any", min: control.least, max: control.below, "aria-label": `${spoken}, exact` });
  const set = (value) => {
    state.values[control.key] = value;
    follow(control.key);
    changed();
  };
  range.addEventListener("input", () => set(valueOf(control, Number(range.value))));
  const complaint = guard(field, range, control.latex, () => domainOf(control), () => number(state.values[control.key]), (text) => {
    const value = Number(text);
    const inside = Number.isFinite(value) && value >= control.least && (control.below === null || value < control.below) && (control.zero || value > 0);
    if (inside) set(value);
    return inside;
  });
  refreshers.push(() => {
    const value = state.values[control.key];
    range.disabled = field.disabled = isTied(control.key);
    range.value = String(positionOf(control, value));
    range.setAttribute("aria-valuetext", control.scale === "gap" ? String(shortened(control, value)) : number(value, 6));
    range.dataset.value = String(value);
    if (document.activeElement !== field) field.value = String(shortened(control, value));
  });
  const words = [control.meaning, control.note, control.side && `measured: ${number(control.value)} (${control.side})`].filter(Boolean).join(" · ");
  return make("div", { class: "control" }, make("label", { for: id, class: "symbol" }, formula(control.latex)), range, field,
    complaint, make("span", { class: "meaning", text: words }));
}

/** The current k of the chosen bound. */
const steps = () => stepsOf(selectedRow() || { k: null }, state.t);

/** A whole number: t, k or K. @param {"t"|"k"|"K"} name */
function counter(name) {
  const { latex, meaning } = DATA.indices[name];
  const range = make("input", { type: "range", id: `c-${name}`, min: name === "t" ? 1 : 0, step: 1, "aria-label": `${name}: ${meaning}` });
  const field = make("input", { type: "number", min: name === "t" ? 1 : 0, step: 1, "aria-label": `${name}: ${meaning}, exact` });
  const set = (text) => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < Number(range.min) || value > state.horizon) return false;
    state[name] = value;
    changed();
    return true;
  };
  range.addEventListener("input", () => set(range.value));
  const complaint = guard(field, range, latex, () => `a whole number from ${range.min} to ${state.horizon}`, () => String(name === "k" ? steps() : state[name]), set);
  refreshers.push(() => {
    const value = name === "k" ? steps() : state[name];
    range.max = field.max = String(state.horizon);
    range.value = String(value);
    range.dataset.value = String(value);
    range.setAttribute("aria-valuetext", `${name} = ${value}`);
    range.disabled = field.disabled = name === "k" && state.follow;
    if (document.activeElement !== field) field.value = String(value);
  });
  return make("div", { class: "control" }, make("label", { for: `c-${name}`, class: "symbol" }, formula(latex)), range, field,
    complaint, make("span", { class: "meaning", text: meaning }));
}

/** Set every constant to its initial value. */
function reset() {
  for (const control of DATA.controls) state.values[control.key] = control.value;
  state.tied = DATA.tied;
  state.follow = true;
  changed();
}

function buildControls() {
  const used = new Set(ROWS.flatMap((row) => (row.formula === null ? [] : row.indices)));
  byId("indices").append(counter("t"));
  if (used.has("k")) {
    const box = make("input", { type: "checkbox", id: "follow", checked: true, onchange: () => { state.k = steps(); state.follow = box.checked; changed(); } });
    const label = make("label", { class: "small" }, box, REPORT ? "k as in the run" : "k = t");
    byId("indices").append(make("div", {}, counter("k"), label));
    refreshers.push(() => (box.checked = state.follow));
  }
  if (used.has("K") && ROWS.some((row) => row.indices.includes("K") && row.k === null)) byId("indices").append(counter("K"));
  for (const [group, title] of Object.entries(DATA.controlGroups)) {
    const mine = DATA.controls.filter((control) => control.group === group);
    if (!mine.length) continue;
    const open = ["contraction", "ball"].includes(group);
    byId("sliders").append(make("details", { open, id: `g-${group}` }, make("summary", {}, make("h3", { text: title })),
      make("div", {}, ...mine.map(slider))));
  }
  const tie = byId("tie");
  byId("tie-label").hidden = !("kappa" in state.values && "q" in state.values);
  byId("tie-label").querySelector("span").append("link q, κ, μ and α as for optimally tuned gradient descent: ", formula(DATA.tie));
  tie.addEventListener("change", () => { state.tied = tie.checked; follow(""); changed(); });
  refreshers.push(() => (tie.checked = state.tied));
  byId("reset").addEventListener("click", reset);
  const horizon = byId("horizon");
  const lengths = [...new Set([DATA.horizon, 50, 100, 200, 500, 1000, 2000, 5000, 10000])].sort((a, b) => a - b);
  horizon.append(...lengths.map((n) => make("option", { value: n, text: String(n) })));
  horizon.addEventListener("change", () => {
    state.horizon = Number(horizon.value);
    for (const name of ["t", "k", "K"]) state[name] = Math.min(state[name], state.horizon);
    changed();
  });
  refreshers.push(() => (horizon.value = String(state.horizon)));
}
