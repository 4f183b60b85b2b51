"use strict";
// Attempts to each broker in time, the failed ones in another colour and pattern, and the latency that 99 % stay under.
(function () {
  const holder = document.getElementById("sends");
  if (!holder || !island.sends.length) return;
  const { begin, send_step: step } = island.stretch, HEIGHT = 54, GAP = 20, RIGHT = 62, ABOVE = 6;
  const seconds = (ms) => (ms >= 1000 ? d3.format(",.1f")(ms / 1000) + " s" : ms ? ms + " ms" : "0");

  // Without attempts there is no latency: the line breaks there.
  function withGaps(buckets) {
    return buckets.flatMap((b, n) => (n && buckets[n - 1][0] + 1 < b[0] ? [[b[0] - 1, 0, 0, null], b] : [b]));
  }

  function draw(width) {
    const narrow = width < 640, gutter = narrow ? 0 : 150, top = narrow ? 18 : 0, row = HEIGHT + GAP + top;
    const x = timeScale(gutter, width - RIGHT);
    const inTime = (s) => s.buckets.filter(([n]) => begin + (n + 1) * step > time.from && begin + n * step < time.to);
    const most = d3.max(island.sends, (s) => d3.max(s.buckets, (b) => b[1])) || 1, slowest = d3.max(island.sends, (s) => d3.max(s.buckets, (b) => b[3])) || 1;
    const y = d3.scaleLinear([0, most], [HEIGHT, 0]), late = d3.scaleSymlog([0, slowest], [HEIGHT, 2]).constant(10);
    d3.select(holder).selectAll("*").remove();
    const svg = d3.select(holder).append("svg").attr("width", width).attr("height", ABOVE + island.sends.length * row + 24).attr("role", "img")
      .attr("aria-label", "Attempts, failures and latency by broker; the table below holds the figures");
    svg.append("defs").append("clipPath").attr("id", "sends-plot").append("rect").attr("x", gutter).attr("width", width - RIGHT - gutter).attr("height", HEIGHT);
    const lane = svg.selectAll("g.broker").data(island.sends).join("g").attr("class", "broker").attr("transform", (s, n) => "translate(0," + (ABOVE + n * row) + ")");
    lane.append("text").attr("x", 0).attr("y", narrow ? 13 : HEIGHT / 2 + 4).attr("class", "strong").text((s) => fitted(inCluster(s.cluster, s.broker), narrow ? width - 20 : gutter - 8));
    const box = lane.append("g").attr("transform", "translate(0," + top + ")"), plot = box.append("g").attr("clip-path", "url(#sends-plot)");
    plot.append("rect").attr("class", "lane").attr("x", gutter).attr("width", width - RIGHT - gutter).attr("height", HEIGHT);
    const wide = Math.max(1, x(begin + step) - x(begin) - 0.5);
    plot.append("g").selectAll("rect").data(inTime).join("rect").attr("x", (b) => x(begin + b[0] * step)).attr("width", wide).attr("y", (b) => y(b[1])).attr("height", (b) => HEIGHT - y(b[1])).attr("fill", "#9fc9e8");
    plot.append("g").selectAll("rect").data((s) => inTime(s).filter((b) => b[2])).join("rect").attr("x", (b) => x(begin + b[0] * step)).attr("width", Math.max(wide, 3)).attr("y", (b) => HEIGHT - Math.max(5, HEIGHT - y(b[2]))).attr("height", (b) => Math.max(5, HEIGHT - y(b[2]))).attr("fill", "#d55e00").append("title").text((b) => b[2] + " failed of " + b[1] + " at " + clock(begin + b[0] * step));
    const line = d3.line((b) => x(begin + (b[0] + 0.5) * step), (b) => late(b[3])).defined((b) => b[3] !== null);
    plot.append("path").attr("fill", "none").attr("stroke", "#1b2430").attr("stroke-width", 1.3).attr("d", (s) => line(withGaps(inTime(s))));
    movable(holder, gutter, width - RIGHT);
    box.append("g").attr("class", "axis").attr("transform", "translate(" + (width - RIGHT + 2) + ",0)").call(d3.axisRight(late).tickValues([0, 100, slowest].filter((v, n, all) => n !== 1 || all[2] > 300)).tickFormat(seconds).tickSize(3));
    svg.append("g").attr("class", "axis").attr("transform", "translate(0," + (ABOVE + island.sends.length * row - GAP + 2) + ")").call(d3.axisBottom(x).ticks(Math.max(2, (width - gutter) / 110)).tickSizeOuter(0).tickFormat(tick));
    d3.select(holder).append("ul").attr("class", "legend").selectAll("li").data([["#9fc9e8", "attempts"], ["#d55e00", "of these, failed"], ["#1b2430", "latency that 99 % stay under (line, right scale)"]]).join("li")
      .each(function ([colour, label]) { d3.select(this).append("i").style("background", colour); d3.select(this).append("span").text(label); });
  }
  onChange(holder, draw);
})();
tellTime();
