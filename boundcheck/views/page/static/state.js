// The choices of the reader, and the bounds for them. All numbers of bounds are from FORMULAS, generated from sympy.

/**
 * @typedef {{id: string, method: string, bound: string, formula: ?string, indices: string[], controls: Object<string, string>,
 *   own: Object<string, number>, fixed: ?(?number)[], k: ?number, line: string, shown: boolean}} Row
 * @typedef {{key: string, name: string, latex: string, meaning: string, note: string, side: string, group: string, scale: string,
 *   low: number, high: number, zero: boolean, value: number, least: number, below: ?number}} Control
 */

const DATA = JSON.parse(byId("data").textContent);
/** @type {Row[]} */
const ROWS = DATA.rows;
const REPORT = DATA.report;
const METHODS = Object.keys(DATA.methods).filter((method) => ROWS.some((row) => row.method === method) || REPORT);

const start = (ROWS.find((row) => row.shown) || ROWS[0] || { id: "", method: METHODS[0] });
const state = {
  t: Math.min(20, REPORT ? REPORT.curves[0].t.at(-1) : DATA.horizon),
  k: Math.min(20, DATA.horizon),
  K: 5,
  follow: true, // use the k of the run, or k = t
  horizon: DATA.horizon,
  log: true,
  tied: DATA.tied,
  method: start.method,
  selected: start.id,
  link: -1, // −1: the step that loses most
  shown: new Set(ROWS.filter((row) => row.shown).map((row) => row.id)),
  /** @type {Object<string, number>} */
  values: Object.fromEntries(DATA.controls.map((control) => [control.key, control.value])),
};

/** k of a row at t. @param {Row} row @param {number} t */
function stepsOf(row, t) {
  if (!state.follow) return state.k;
  return row.k === null ? t : row.k;
}

/** The arguments of a row's formula. @param {Row} row @param {number} t */
function argumentsOf(row, t) {
  const given = { ...row.own };
  for (const [name, key] of Object.entries(row.controls)) given[name] = state.values[key];
  const indices = { t, k: stepsOf(row, t), K: row.k === null ? state.K : Math.min(row.k, t) };
  for (const name of row.indices) given[name] = indices[name];
  return given;
}

/** The first condition of the theorem that fails at t, or −1. @param {Row} row @param {number} t */
function failing(row, t) {
  const check = row.formula === null ? undefined : CONDITIONS[row.formula];
  return check ? check(argumentsOf(row, t)).indexOf(false) : -1;
}

/** The bound at t, or null if it does not apply. @param {Row} row @param {number} t @returns {?number} */
function valueAt(row, t) {
  if (row.fixed !== null) return t <= row.fixed.length ? row.fixed[t - 1] : null;
  if (failing(row, t) >= 0) return null;
  const value = FORMULAS[row.formula](argumentsOf(row, t));
  return Number.isFinite(value) ? value : null;
}

/** The data of the report on a row. @param {Row} row */
const boundOf = (row) => REPORT.curves.find((curve) => curve.method === row.method).bounds[row.bound];

/** The measured error of a method at t. @param {string} method @param {number} t @returns {?number} */
function errorAt(method, t) {
  const curve = REPORT && REPORT.curves.find((curve) => curve.method === method);
  return curve && t <= curve.error.length ? curve.error[t - 1] : null;
}

/** Whether the error of a method at t is more than rounding, so that the report compared it. @param {string} method @param {number} t */
function isCompared(method, t) {
  const curve = REPORT && REPORT.curves.find((curve) => curve.method === method);
  return Boolean(curve && t <= curve.compared.length && curve.compared[t - 1]);
}

/** The constants that differ from the report, so that its verdicts do not hold for them. @returns {Control[]} */
const changedConstants = () => (REPORT ? DATA.controls.filter((control) => state.values[control.key] !== control.value) : []);

/** Whether the bound contains a changed constant. @param {Row} row */
function isChanged(row) {
  const keys = changedConstants().map((control) => control.key);
  return Object.values(row.controls).some((key) => keys.includes(key));
}

/** bound/error at t where they can be compared: an error above rounding, and the k of the run. @param {Row} row @param {number} t @returns {?number} */
function ratioAt(row, t) {
  const bound = valueAt(row, t), error = errorAt(row.method, t);
  const steps = row.indices.includes("k") && stepsOf(row, t) !== (row.k === null ? t : row.k);
  return bound === null || !error || steps || !isCompared(row.method, t) ? null : bound / error;
}

/** Whether the bound is below the error at the chosen t. @param {Row} row */
function isBelow(row) {
  const ratio = ratioAt(row, state.t);
  return ratio !== null && ratio < 1;
}

/** The text for a row with changed constants, in place of a verdict. @param {Row} row */
function withTheseSliders(row) {
  const ratio = ratioAt(row, state.t);
  if (ratio !== null) return `with these sliders: ${ratio < 1 ? "below" : "above"} the error`;
  return valueAt(row, state.t) === null ? "with these sliders: says nothing" : "with these sliders: not compared";
}

/** The rows that may be drawn: all, or those of the chosen method. @returns {Row[]} */
const candidates = () => (REPORT ? ROWS.filter((row) => row.method === state.method) : ROWS);
const drawn = () => candidates().filter((row) => state.shown.has(row.id));

/** @param {string} method */
const methodColour = (method) => DATA.methodColours[method][isDark() ? 1 : 0];

/** Whether a bound has the colour of its method: it has the name of the method, and no error is drawn. @param {Row} row */
const isNamesake = (row) => !REPORT && row.bound === row.method;

/** The colours of the other drawn rows; a row keeps its colour while it is drawn. @type {Map<string, number>} */
const painted = new Map();

function paint() {
  const now = drawn().filter((row) => !isNamesake(row)).map((row) => row.id);
  for (const id of [...painted.keys()]) if (!now.includes(id)) painted.delete(id);
  for (const id of now) {
    if (painted.has(id)) continue;
    const used = [...painted.values()];
    const free = DATA.colours.findIndex((_, i) => !used.includes(i));
    painted.set(id, free >= 0 ? free : painted.size % DATA.colours.length);
  }
}

/** @param {Row} row */
function rowColour(row) {
  if (!state.shown.has(row.id)) return colourOf("--rule");
  if (isNamesake(row)) return methodColour(row.method);
  if (!painted.has(row.id)) return colourOf("--rule");
  return DATA[isDark() ? "coloursDark" : "colours"][painted.get(row.id)];
}

const selectedRow = () => ROWS.find((row) => row.id === state.selected);

/** Update the constants that follow from a moved control. @param {string} key */
function follow(key) {
  if (!state.tied) return;
  if (key in BACK) state.values[BACK[key].to] = BACK[key].by(state.values);
  for (const [name, by] of Object.entries(TIES)) if (name !== key && name in state.values) state.values[name] = by(state.values);
}

/** Whether a control cannot be moved, because it follows from others. @param {string} key */
const isTied = (key) => state.tied && key in TIES && !(key in BACK);
