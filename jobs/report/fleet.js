"use strict";
// What share of the active producers refused each broker, cell by cell; a cell stands for its worst minute.
(function () {
  const holder = document.getElementById("fleet-strips");
  if (!holder || !island.fleet.brokers.length) return;
  const told = document.getElementById("fleet-told");
  const { begin, step, brokers } = island.fleet, ROWS = 40, HEIGHT = 28, GAP = 4, RIGHT = 72, AXIS = 24, LETTERS = 34;
  const minute = inZone("%Y-%m-%d %H:%M"), percent = (n, of) => Math.round((100 * n) / of) + " %";
  let width = 0, rows = ROWS;

  // Nobody of those who were active could be judged.
  const unsure = (cell) => !cell[2] && cell[3] > 0;
  const share = ([, n, of]) => (n >= of / 2 ? "most" : n <= of / 10 ? "few" : "some");

  function words([broker, cell]) {
    const [place, n, active, unknown, offset, refused, judged] = cell, from = begin + place * step;
    const lines = [inCluster(broker[0], broker[1]) + ", " + minute(from) + " to " + minute(from + step)];
    if (n) {
      lines.push("In its worst minute, " + minute(from + offset * 60000) + ", " + n + " of " + active + " active producers refused it ("
        + percent(n, active) + "); somebody did in " + refused + " of " + judged + " minutes.");
    } else if (active) lines.push("None of " + active + " active producers refused it.");
    else if (!unknown) lines.push("Only producers whose switch is off were active: they refuse nothing.");
    if (unknown) lines.push(unknown + (active ? " more" : " active producers") + " could not be judged.");
    return lines.join("\n");
  }

  function summary([cluster, name, judged, refused, byHalf, worst]) {
    const most = worst ? "; worst minute " + minute(worst[2]) + ": " + worst[0] + " of " + worst[1] + ", " + percent(worst[0], worst[1]) : "";
    return inCluster(cluster, name) + ": refused by somebody in " + refused + " of " + judged + " judged minutes, by half of the active producers or more in "
      + byHalf + most + ".";
  }

  function draw() {
    const narrow = width < 640, gutter = narrow ? 0 : 150, right = narrow ? 0 : RIGHT, top = narrow ? 18 : 0, row = HEIGHT + top + GAP;
    const list = brokers.slice(0, rows), x = timeScale(gutter, width - right);
    const wide = x(begin + step) - x(begin), at = (cell) => x(begin + cell[0] * step), high = (cell) => Math.max(4, (HEIGHT * cell[1]) / cell[2]);
    d3.select(holder).selectAll("*").remove();
    const svg = d3.select(holder).append("svg").attr("width", width).attr("height", AXIS + list.length * row).attr("role", "group")
      .attr("aria-label", "Share of the active producers that refused each broker, over time");
    svg.append("defs").append("clipPath").attr("id", "fleet-plot").append("rect").attr("x", gutter).attr("width", width - right - gutter).attr("height", HEIGHT);
    const hatch = svg.append("defs").append("pattern").attr("id", "not-judged").attr("width", 6).attr("height", 6)
      .attr("patternUnits", "userSpaceOnUse").attr("patternTransform", "rotate(45)");
    hatch.append("rect").attr("width", 6).attr("height", 6).attr("fill", "#fff");
    hatch.append("rect").attr("width", 2).attr("height", 6).attr("fill", "#8b97a5");
    svg.append("g").attr("class", "axis").attr("transform", "translate(0," + (AXIS - 4) + ")")
      .call(d3.axisTop(x).ticks(Math.max(2, (width - gutter) / 110)).tickSizeOuter(0).tickFormat(tick));
    const lane = svg.selectAll("g.broker").data(list).join("g").attr("class", "broker").attr("transform", (b, n) => "translate(0," + (AXIS + n * row) + ")");
    const label = telling(lane.append("g").attr("class", "label"), told, summary);
    label.append("text").attr("class", "strong").attr("x", 0).attr("y", narrow ? 13 : HEIGHT / 2 + 4)
      .text((b) => fitted(inCluster(b[0], b[1]), narrow ? width - 90 : gutter - 8)).append("title").text((b) => b[1]);
    label.append("text").attr("class", "sub").attr("x", width).attr("text-anchor", "end").attr("y", narrow ? 13 : HEIGHT / 2 + 4)
      .text((b) => (b[5] ? "up to " + percent(b[5][0], b[5][1]) : "none"));
    const mark = lane.append("g").attr("clip-path", "url(#fleet-plot)").attr("transform", "translate(0," + top + ")").selectAll("g").data((b) => b[6].filter(([n]) => begin + (n + 1) * step > time.from && begin + n * step < time.to).map((cell) => [b, cell])).join("g");
    telling(mark.attr("class", "mark"), told, words);
    mark.append("rect").attr("x", ([, cell]) => at(cell)).attr("width", wide).attr("height", HEIGHT)
      .attr("class", ([, cell]) => (unsure(cell) ? null : "nobody")).attr("fill", "url(#not-judged)");
    const refused = mark.filter(([, cell]) => cell[1]);
    refused.append("rect").attr("x", ([, cell]) => at(cell)).attr("width", Math.max(wide - 0.5, 1)).attr("y", ([, cell]) => HEIGHT - high(cell))
      .attr("height", ([, cell]) => high(cell)).attr("class", ([, cell]) => share(cell));
    if (wide >= LETTERS) {
      refused.append("text").attr("x", ([, cell]) => at(cell) + wide / 2).attr("text-anchor", "middle")
        .attr("y", ([, cell]) => (share(cell) === "most" ? HEIGHT - 3 : HEIGHT - 3 - high(cell)))
        .attr("class", ([, cell]) => "on-" + share(cell)).text(([, cell]) => percent(cell[1], cell[2]));
    }
    movable(holder, gutter, width - right);
    if (rows < brokers.length) {
      d3.select(holder).append("button").attr("type", "button").text("Show more: " + rows + " of " + brokers.length + " brokers are drawn")
        .on("click", () => { rows += ROWS; draw(); roving(holder); });
    }
  }

  onChange(holder, (now) => { width = now; draw(); });
})();
