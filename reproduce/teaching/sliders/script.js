// Draws one page of sliders into `root`. `page` holds its words, axes and grid (see pages.py). It asks for nothing else.
function drawSliders(root, page) {
  drawSliders.count = (drawSliders.count || 0) + 1;
  const prefix = `sliders-${page.name}-${drawSliders.count}`;
  const sizes = page.axes.map((axis) => axis.values.length);
  const strides = sizes.map((_, k) => sizes.slice(k + 1).reduce((a, b) => a * b, 1));
  const positions = page.axes.map((axis) => axis.start);

  function make(tag, attributes, ...inside) {
    const drawn = ["svg", "path", "line", "rect", "text", "title", "desc"].includes(tag);
    const element = drawn
      ? document.createElementNS("http://www.w3.org/2000/svg", tag)
      : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...inside);
    return element;
  }

  // Numbers. Stored ones have four digits, so that their shortest text is exact.
  function shown(x) {
    return x !== 0 && (x < 1e-3 || x >= 1e5) ? x.toExponential() : String(x);
  }

  function around(axis, position) {
    const below = Math.floor(position / axis.between);
    return position % axis.between ? [below, below + 1] : [below];
  }

  // Of the corners around a place: the smallest lower bound and the largest upper one.
  function bounds(quantity, corners) {
    let places = [0];
    corners.forEach((indices, k) => {
      places = places.flatMap((place) => indices.map((i) => place + i * strides[k]));
    });
    return [
      Math.min(...places.map((place) => page.low[quantity][place])),
      Math.max(...places.map((place) => page.high[quantity][place])),
    ];
  }

  // The frame: sliders, sentences, picture, table.
  root.classList.add("sliders");
  const controls = make("fieldset", {}, make("legend", {}, "Sliders: mouse, or arrow keys"));
  const inputs = page.axes.map((axis, k) => {
    const id = `${prefix}-${axis.name}`;
    const input = make("input", {
      type: "range", id, min: 0, max: axis.positions.length - 1, step: 1,
      value: axis.start,
      "data-lm-suppress-shortcuts": "true", // else JupyterLab takes the arrow keys
    });
    input.value = axis.start;
    const output = make("output", { for: id });
    controls.append(
      make("div", { class: "slider" }, make("label", { for: id }, axis.label), output, input));
    input.addEventListener("input", () => {
      positions[k] = Number(input.value);
      update();
    });
    return { input, output };
  });
  const verdicts = make("p", { class: "verdicts", "aria-live": "polite" });
  const where = make("p", { class: "where" });
  const picture = make("figure", {});
  const rows = page.quantities.map(([, words], k) => {
    const cells = [make("td", { class: "low" }), make("td", { class: "high" })];
    const head = make("th", { scope: "row" });
    if (!page.rates) head.append(swatch(k));
    head.append(words);
    return { cells, row: make("tr", {}, head, ...cells) };
  });
  const table = make("table", {},
    make("caption", {}, "What holds at this position"),
    make("thead", {}, make("tr", {}, ...["quantity", "at least", "at most"].map(
      (words) => make("th", { scope: "col" }, words)))),
    make("tbody", {}, ...rows.map(({ row }) => row)));
  const order = [controls, picture, table, where];
  if (page.verdicts.length) order.splice(1, 0, verdicts);
  root.replaceChildren(make("p", {}, page.lead), ...order);

  function swatch(k) {
    const line = make("line", { x1: 0, y1: 6, x2: 28, y2: 6, class: `line c${k}` });
    return make("svg", { class: "swatch", width: 28, height: 12, "aria-hidden": "true" }, line);
  }

  function update() {
    const corners = page.axes.map((axis, k) => around(axis, positions[k]));
    const between = [];
    page.axes.forEach((axis, k) => {
      const value = shown(axis.positions[positions[k]]);
      const ends = corners[k].map((i) => shown(axis.values[i]));
      const cell = ends.length > 1 ? `, between the computed ${ends.join(" and ")}` : "";
      if (cell) between.push(`${axis.label} = ${value} lies between ${ends.join(" and ")}`);
      inputs[k].output.textContent = value;
      inputs[k].input.setAttribute("aria-valuetext", value + cell);
    });
    const found = {};
    page.quantities.forEach(([name], k) => {
      found[name] = bounds(name, corners);
      rows[k].cells.forEach((cell, end) => { cell.textContent = shown(found[name][end]); });
    });
    const sentences = page.verdicts.map(([first, second, less, more, open]) => {
      if (found[first][1] < found[second][0]) return less;
      return found[first][0] > found[second][1] ? more : open;
    });
    verdicts.textContent = sentences.join(" ");
    where.textContent = between.length
      ? `Computed grid points: ${between.join("; ")}. Shown is the worse neighbour: of the bounds at the `
        + "grid points around, the smallest “at least” and the largest “at most”. Both hold here."
      : "All sliders stand on computed grid points.";
    draw(corners, found);
  }

  // The picture.
  function scale(first, last, from, to, log) {
    const f = log ? Math.log : (x) => x;
    return (x) => {
      const at = (f(Math.min(Math.max(x, first), last)) - f(first)) / (f(last) - f(first));
      return Number((from + at * (to - from)).toFixed(1));
    };
  }

  function ticks(first, last, log) {
    const marks = [];
    if (log) {
      const decades = Math.round(Math.log10(last / first));
      const step = Math.max(1, Math.ceil(decades / 6));
      for (let k = Math.ceil(Math.log10(first) - 1e-9); 10 ** k <= last * 1.001; k += step) {
        marks.push(Number((10 ** k).toPrecision(3)));
      }
      return marks;
    }
    const rough = (last - first) / 5;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = unit * [1, 2, 5, 10].find((m) => m * unit >= rough);
    for (let x = Math.ceil(first / step) * step; x <= last * 1.001; x += step) {
      marks.push(Number(x.toPrecision(3)));
    }
    return marks;
  }

  function draw(corners, found) {
    const width = Math.min(Math.max(root.clientWidth || 640, 300), 720);
    const height = page.rates ? Math.min(width, 420) : 340;
    const [left, right, top, bottom] = [58, 14, 10, 46];
    const along = page.axes[page.along];
    const [first, last] = page.rates ? [0, 1] : [along.values[0], along.values.at(-1)];
    const pad = along.between === 1 && !page.rates ? 18 : 0;
    const x = scale(first, last, left + pad, width - right - pad, along.log && !page.rates);
    const y = scale(...page.span, height - bottom, top, page.log);
    const words = page.quantities.map(([name, text]) =>
      `${text}: at least ${shown(found[name][0])}, at most ${shown(found[name][1])}`).join("; ");
    const svg = make("svg", {
      role: "img", viewBox: `0 0 ${width} ${height}`, width, height,
      "aria-labelledby": `${prefix}-title ${prefix}-desc`,
    });
    const over = page.rates ? "false alarms" : along.label;
    svg.append(
      make("title", { id: `${prefix}-title` }, `${page.vertical} against ${over}`),
      make("desc", { id: `${prefix}-desc` }, `At this position: ${words}.`));
    const atStops = along.between === 1 && !page.rates;
    for (const mark of atStops ? along.values : ticks(first, last, along.log && !page.rates)) {
      svg.append(
        make("line", { class: "grid", x1: x(mark), x2: x(mark), y1: top, y2: height - bottom }),
        make("text", { x: x(mark), y: height - bottom + 16, "text-anchor": "middle" }, shown(mark)));
    }
    for (const mark of ticks(...page.span, page.log)) {
      svg.append(
        make("line", { class: "grid", x1: left, x2: width - right, y1: y(mark), y2: y(mark) }),
        make("text", { x: left - 6, y: y(mark) + 4, "text-anchor": "end" }, shown(mark)));
    }
    svg.append(
      make("text", { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }, over),
      make("text", {
        x: -(top + height - bottom) / 2, y: 12, transform: "rotate(-90)", "text-anchor": "middle",
      }, page.vertical));
    if (page.rates) roc(svg, x, y, corners, found);
    else bands(svg, x, y, corners, height - bottom, top);
    const caption = page.rates
      ? make("figcaption", {}, swatch(0), "attackers that exist (with the larger σ around) ",
        swatch(1), "no attacker is above (promise with “at most”)")
      : make("figcaption", {}, "From the lower to the upper bound, with the other sliders as they stand. "
        + (atStops ? "Lines between the stops only guide the eye. " : "Each step is one cell of the grid. ")
        + "What lies beyond the picture is drawn at its edge. The vertical line is the position of the slider.");
    picture.replaceChildren(svg, caption);
  }

  function bands(svg, x, y, corners, floor, top) {
    const along = page.axes[page.along];
    const here = x(along.positions[positions[page.along]]);
    svg.append(make("line", { class: "here", x1: here, x2: here, y1: top, y2: floor }));
    page.quantities.forEach(([name], k) => {
      const at = (indices) =>
        bounds(name, corners.map((own, axis) => (axis === page.along ? indices : own)));
      if (along.between === 1) {
        const shift = 5 * (k - (page.quantities.length - 1) / 2);
        const stops = along.values.map((value, i) => [x(value) + shift, ...at([i]).map(y)]);
        const line = stops.map(([px, low, high]) => `${px} ${(low + high) / 2}`).join("L");
        svg.append(make("path", { class: `line thin c${k}`, d: `M${line}` }));
        for (const [px, low, high] of stops) {
          svg.append(make("rect", {
            class: `bar c${k}`, x: px - 2.5, y: high - 1.5, width: 5, height: low - high + 3,
          }));
        }
        return;
      }
      const cells = along.values.slice(1).map((value, i) =>
        [x(along.values[i]), x(value), ...at([i, i + 1]).map(y)]);
      const upper = cells.map(([a, b, , high]) => `${a} ${high}L${b} ${high}`);
      const lower = cells.map(([a, b, low]) => `${a} ${low}L${b} ${low}`);
      const back = cells.map(([a, b, low]) => `${b} ${low}L${a} ${low}`).reverse();
      svg.append(
        make("path", { class: `band c${k}`, d: `M${upper.join("L")}L${back.join("L")}Z` }),
        make("path", { class: `line thin c${k}`, d: `M${upper.join("L")}M${lower.join("L")}` }));
    });
  }

  function roc(svg, x, y, corners, found) {
    const epsilon = page.axes[1].positions[positions[1]];
    const delta = Math.min(found[page.promise][1], 1);
    const kink = (1 - delta) / (1 + Math.exp(epsilon));
    const promise = [[0, delta], [kink, Math.exp(epsilon) * kink + delta], [1 - delta, 1], [1, 1]];
    const hits = page.reached[corners[0].at(-1)];
    const path = (points) => `M${points.map(([a, b]) => `${x(a)} ${y(b)}`).join("L")}`;
    svg.append(
      make("path", { class: "band c1", d: `${path(promise)}L${x(0)} ${y(1)}Z` }),
      make("path", { class: "grid", d: path([[0, 0], [1, 1]]) }),
      make("path", { class: "line c1", d: path(promise) }),
      make("path", { class: "line c0", d: path(page.rates.map((rate, k) => [rate, hits[k]])) }));
  }

  update();
  let width = root.clientWidth;
  new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    update();
  }).observe(root);
}
