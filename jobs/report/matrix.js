"use strict";
// Who owned each queue in each round. A letter is a member; a colour and a sign say what is wrong.
(function () {
  const holder = document.getElementById("matrix");
  if (!holder || !island.matrices.length) return;
  const told = document.getElementById("matrix-told"), select = document.getElementById("matrix-of");
  const LOOK = {
    ORPHAN_QUEUE: "none", UNSERVED_QUEUE: "none", ORPHAN_BY_DESIGN: "design", DOUBLE_OWNED: "twice", WRONG_OWNER: "wrong", GHOST_OWNER: "wrong",
    REBALANCE_FLAP: "stalled", SLOW_HANDOVER: "stalled", LOCK_STARVED: "stalled", PULL_IDLE: "stalled", CONSUME_BLOCKED: "stalled",
  };
  const VERDICT = { ok: "✓", drift: "✗", unknown: "?" };
  const GUTTER = 108, ROW = 21, HEAD = 44, READABLE = 32, LEGIBLE = 16;
  const hour = inZone("%H:%M:%S");
  let shown = island.matrices[0], columns = null, width = 0;

  // A to Z, then A1, B1, ...
  const letter = (n) => (n < 0 ? "nobody" : String.fromCharCode(65 + (n % 26)) + (n < 26 ? "" : Math.floor(n / 26)));

  function look([round, expected, owners, code]) {
    if (code) return LOOK[code] || "wrong";
    if (shown.message_model === "BROADCASTING" && owners.length) return "ok";
    if (owners.length === 1 && owners[0] === expected) return "ok";
    if (!owners.length) return shown.verdicts[round] === "ok" ? "other" : "unknown";
    return "other";
  }

  function sign(cell, kind, pixels) {
    const owners = cell[2], text = owners.map(letter).join("+");
    if (kind === "none" || (kind === "design" && !owners.length)) return kind === "none" ? "∅" : "–";
    if (!owners.length) return kind === "unknown" ? "?" : "";
    if (text.length * 8.5 <= pixels) return text;
    return owners.length > 1 ? owners.length + "×" : "";
  }

  // Cells as they are kept: a round, how many rounds from there on are alike, and what they show.
  function each(cells) {
    return cells.flatMap(([round, alike, expected, owners, found]) => Array.from({ length: alike }, (_, n) => [round + n, expected, owners, ...(shown.found[found] || [])]));
  }

  function words([queue, cell]) {
    const [round, expected, owners, code, state] = cell, names = owners.map((n) => shown.members[n]);
    return queue + " of " + shown.topic + " in " + shown.consumer_group + ", round " + clock(shown.at[round]) + "\n"
      + "Owned by " + (names.join(" and ") || "nobody seen") + "; expected: "
      + (expected < 0 ? (shown.message_model === "BROADCASTING" ? "everybody" : "nobody") : shown.members[expected]) + ". "
      + (code ? code + (state === "SUPPRESSED" ? ", within grace" : state === "PENDING" ? ", not yet long enough for an incident" : ", part of an open incident") : "No finding")
      + "; the round's verdict: " + (shown.verdicts[round] || "none") + ".";
  }

  function draw() {
    const seen = shown.at.map((at, n) => n).filter((n) => shown.at[n] >= time.from && shown.at[n] <= time.to), place = new Map(seen.map((n, at) => [n, at]));
    const rounds = Math.max(seen.length, 1), fit = Math.max((width - GUTTER - 4) / rounds, 5);
    const chosen = columns || (fit >= LEGIBLE ? "fit" : "wide");
    pressed(switches, switches.find((button) => button.dataset.columns === chosen));
    const pixels = chosen === "fit" ? Math.min(fit, 60) : Math.max(fit, READABLE);
    const full = Math.max(GUTTER + rounds * pixels + 4, 120), height = HEAD + shown.queues.length * ROW + 4;
    d3.select(holder).selectAll("*").remove();
    const svg = d3.select(holder).append("svg").attr("width", full).attr("height", height).attr("role", "group")
      .attr("aria-label", "Owners of the queues, round by round");
    const x = (round) => GUTTER + place.get(round) * pixels, every = Math.ceil(58 / pixels);
    svg.append("g").selectAll("text").data(seen.filter((n, at) => at % every === 0)).join("text").attr("class", "sub").attr("x", (r) => x(r) + 1).attr("y", 14).text((r) => hour(shown.at[r]));
    svg.append("text").attr("class", "sub").attr("x", 0).attr("y", 34).text(seen.length ? "verdict of round" : "no round in this time");
    if (pixels >= 9) {
      svg.append("g").selectAll("text").data(seen).join("text").attr("x", (r) => x(r) + pixels / 2).attr("y", 34).attr("text-anchor", "middle").text((r) => VERDICT[shown.verdicts[r]] || "·");
    }
    const row = svg.append("g").selectAll("g").data(shown.queues).join("g").attr("transform", (d, i) => "translate(0," + (HEAD + i * ROW) + ")");
    row.append("text").attr("x", 0).attr("y", ROW / 2 + 4).text((d) => fitted(d[0], GUTTER - 6)).append("title").text((d) => d[0]);
    const mark = row.selectAll("g").data(([queue, cells]) => each(cells).filter((cell) => place.has(cell[0])).map((cell) => [queue, cell, look(cell)])).join("g");
    mark.append("rect").attr("x", ([, cell]) => x(cell[0]) + 0.5).attr("y", 1).attr("width", pixels - (pixels > 8 ? 1.5 : 0.5)).attr("height", ROW - 3)
      .attr("class", ([, cell, kind]) => "cell-" + kind + (cell[4] === "SUPPRESSED" ? " in-grace" : ""));
    if (pixels >= 9) {
      mark.append("text").attr("x", ([, cell]) => x(cell[0]) + pixels / 2).attr("y", ROW / 2 + 4)
        .attr("class", ([, cell, kind]) => "letter on-" + kind + (cell[4] === "SUPPRESSED" ? " on-grace" : "")).text(([, cell, kind]) => sign(cell, kind, pixels));
    }
    telling(mark.attr("class", "mark"), told, words);
  }

  function members() {
    const list = d3.select("#matrix-members");
    list.selectAll("span").data(shown.members).join((enter) => { const s = enter.append("span"); s.append("b"); s.append("bdi"); return s; });
    list.selectAll("b").data(shown.members.map((name, n) => letter(n))).text((text) => text);
    list.selectAll("bdi").data(shown.members).text((name) => name);
  }

  d3.select(select).selectAll("option").data(island.matrices).join("option").attr("value", (m, n) => n)
    .text((m) => m.consumer_group + " · " + m.topic + (manyClusters ? " (" + m.cluster + ")" : "") + (m.drift ? " — drift in " + m.drift + " of " + m.rounds + " rounds" : " — no drift in " + m.rounds + " rounds"));
  select.addEventListener("change", () => { shown = island.matrices[+select.value]; members(); draw(); roving(holder); });
  const switches = [...document.querySelectorAll("[data-columns]")];
  for (const button of switches) button.addEventListener("click", () => { columns = button.dataset.columns; draw(); roving(holder); });
  members();
  onChange(holder, (now) => { width = now; draw(); });
})();
