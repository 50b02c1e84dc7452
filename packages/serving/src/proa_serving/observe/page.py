"""A page that shows what the server is doing, for a person to look at."""

PAGE = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>proa-serve</title>
<style>
  body { font: 14px system-ui, sans-serif; margin: 2em; color: #222; }
  table { border-collapse: collapse; margin-bottom: 2em; }
  th, td { padding: .3em .9em; text-align: right; border-bottom: 1px solid #ddd; }
  th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left; }
  .bad { color: #b00; } #state { color: #777; }
</style>
<h1>proa-serve</h1>
<table>
  <thead><tr><th>Model<th>Version<th>State<th>Requests/s<th>Failures/s<th>Mean, ms
    <th>Wait, ms<th>Run, ms<th>Rows a run<th>Requests</tr></thead>
  <tbody id="models"></tbody>
</table>
<p id="state"></p>
<script>
"use strict";
let before = new Map(), at = performance.now();
const ms = (held, old, key) => {
  const count = held[key].count - old[key].count;
  return count ? ((held[key].ns - old[key].ns) / count / 1e6).toFixed(2) : "";
};
function row(cells, bad) {
  const line = document.createElement("tr");
  for (const text of cells) line.appendChild(document.createElement("td"))
    .textContent = text;
  if (bad) line.className = "bad";
  return line;
}
async function look() {
  const state = document.getElementById("state");
  try {
    const [stats, index] = await Promise.all([
      fetch("/v2/models/stats").then(r => r.json()),
      fetch("/v2/repository/index", {method: "POST", body: "{}"}).then(r => r.json())]);
    const now = performance.now(), seconds = (now - at) / 1e3, next = new Map();
    const found = new Map(stats.model_stats.map(m => [m.name + "\\n" + m.version, m]));
    const lines = index.map(entry => {
      const key = entry.name + "\\n" + entry.version, held = found.get(key);
      if (!held) return row([entry.name, entry.version,
                             entry.state + " " + entry.reason], true);
      next.set(key, held);
      const old = before.get(key) || held;
      const is = held.inference_stats, was = old.inference_stats;
      const rate = name => ((is[name].count - was[name].count) / seconds).toFixed(1);
      const runs = held.execution_count - old.execution_count;
      return row([entry.name, entry.version, entry.state, rate("success"),
        rate("fail"), ms(is, was, "success"), ms(is, was, "queue"),
        ms(is, was, "compute_infer"),
        runs ? ((held.inference_count - old.inference_count) / runs).toFixed(1) : "",
        is.success.count]);
    });
    document.getElementById("models").replaceChildren(...lines);
    before = next; at = now;
    state.textContent = "Of the last " + seconds.toFixed(1) + " s.";
  } catch (error) {
    state.textContent = "The server does not answer: " + error;
  }
  setTimeout(look, 2000);
}
look();
</script>
</html>
"""
