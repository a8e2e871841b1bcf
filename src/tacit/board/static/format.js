/** Numbers, times and sizes as a reader writes them. */

const NONE = "–";
const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

/** Return a number with `digits` significant digits; an en dash where there is none. */
export function number(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-4) return value.toExponential(Math.max(0, digits - 2)).replace("e+", "e");
  if (Number.isInteger(value) || size >= 10 ** (digits - 1)) return whole.format(value).replace("-", "−");
  return value.toPrecision(digits).replace("-", "−");
}

/** Return a whole number with separators. */
export const count = (value) => (value === null || value === undefined ? NONE : whole.format(value));

/** Return "1 run", "2 runs". */
export const some = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** Return seconds as "4 s", "3 min 20 s", "2 h 5 min", "3 days 2 h". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return NONE;
  const all = Math.max(0, Math.round(seconds));
  const parts = [[Math.floor(all / 86400), all >= 172800 ? "days" : "day"], [Math.floor(all / 3600) % 24, "h"],
    [Math.floor(all / 60) % 60, "min"], [all % 60, "s"]];
  const first = parts.findIndex(([amount]) => amount > 0);
  if (first < 0) return "0 s";
  return parts.slice(first, first + 2).filter(([amount]) => amount > 0).map(([amount, unit]) => `${amount} ${unit}`).join(" ");
}

/** Return how long ago a time in seconds was. */
export function ago(time) {
  if (time === null || time === undefined) return NONE;
  const since = Date.now() / 1000 - time;
  return since < 2 ? "now" : `${since < 60 ? duration(since) : duration(since).split(" ").slice(0, 2).join(" ")} ago`;
}

/** Return a day and time of the reader's clock. */
export function moment(time) {
  if (time === null || time === undefined) return NONE;
  return new Date(time * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
}

/** Return the hour, minute and second of a time. */
export const clock = (time) => new Date(time * 1000).toLocaleTimeString("en-GB");

/** Return an amount with one of the units that are 1,000 apart: "420 GB". */
function inUnits(value, units) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const step = value >= 1 ? Math.min(units.length - 1, Math.floor(Math.log10(value) / 3)) : 0;
  return `${Number((value / 1000 ** step).toPrecision(3))} ${units[step]}`;
}

export const bytes = (value) => inUnits(value, ["B", "kB", "MB", "GB", "TB", "PB"]);
export const bits = (value) => inUnits(value, ["bit", "kbit", "Mbit", "Gbit", "Tbit", "Pbit"]);

/** Return a figure of a run by its name. */
export const figure = (name, value, digits) => (name === "bits" ? bits(value) : number(value, digits));

/** Return a share as "42 %". */
export const percent = (share) => (Number.isFinite(share) ? `${Math.round(100 * share)} %` : NONE);

/** Return a setting's value: words for truth and lists, JSON for tables. */
export function setting(value) {
  if (value === null || value === undefined) return NONE;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value) && value.every((each) => typeof each !== "object")) return value.join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

const isTable = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Return a table of tables as [key with dots, value] pairs; a list of one table counts as the table. */
export function flat(settings, before = "") {
  return Object.entries(settings ?? {}).flatMap(([key, value]) => {
    const inner = Array.isArray(value) && value.length === 1 && isTable(value[0]) ? value[0] : value;
    return isTable(inner) ? flat(inner, `${before}${key}.`) : [[before + key, value]];
  });
}
