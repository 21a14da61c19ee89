// Draws the book's plotly figures and Explorers without a kernel and without another site.
(() => {
  "use strict";
  const base = new URL(".", document.currentScript.src);
  const roots = document.querySelectorAll(".kcm-figure, .kcm-explorer");
  if (!roots.length) return;

  let loading;
  function plotly() {
    loading ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = new URL("plotly.min.js", base).href;
      script.onload = () => resolve(window.Plotly);
      script.onerror = reject;
      document.head.append(script);
    });
    return loading;
  }

  // The theme's colours as "path: value" updates: a relayout with them keeps the reader's zoom.
  function colours(layout) {
    const style = getComputedStyle(document.documentElement);
    const css = (name) => style.getPropertyValue(name).trim();
    const text = css("--pst-color-text-base");
    const line = css("--pst-color-border");
    const update = {
      "font.color": text,
      "font.family": getComputedStyle(document.body).fontFamily,
      "paper_bgcolor": "rgba(0,0,0,0)",
      "plot_bgcolor": "rgba(0,0,0,0)",
      "legend.bgcolor": "rgba(0,0,0,0)",
      "hoverlabel.bgcolor": css("--pst-color-surface"),
      "hoverlabel.font.color": text,
    };
    const axes = ["xaxis", "yaxis", ...Object.keys(layout).filter((key) => /^[xy]axis\d+$/.test(key))];
    for (const axis of new Set(axes))
      for (const part of ["gridcolor", "zerolinecolor", "linecolor"]) update[`${axis}.${part}`] = line;
    return update;
  }

  const small = matchMedia("(max-width: 600px)");
  const touch = matchMedia("(pointer: coarse)");

  async function draw(plot, figure) {
    const Plotly = await plotly();
    const layout = {
      uirevision: "keep",
      margin: { l: small.matches ? 48 : 64, r: 16, t: figure.layout.title ? 56 : 24, b: 48 },
      ...figure.layout,
      autosize: true,
    };
    delete layout.width;
    // Plotly draws lines without a colour nearly black: on a dark page they vanish.
    layout.shapes = layout.shapes?.map((shape) => ({ ...shape, line: { color: "#888", ...shape.line } }));
    if (small.matches && !layout.legend?.orientation)
      layout.legend = { ...layout.legend, orientation: "h", x: 0, xanchor: "left", y: -0.2, yanchor: "top" };
    if (touch.matches) layout.dragmode = false; // a finger on the plot scrolls the page
    const config = { responsive: true, displaylogo: false, displayModeBar: touch.matches ? false : "hover" };
    await Plotly.react(plot, figure.data, layout, config);
    await Plotly.relayout(plot, colours(layout));
    plot.dataset.drawn = (+plot.dataset.drawn || 0) + 1;
  }

  // Draw once a reader is about to see it: a plot in a folded answer has no width before.
  const waiting = new Map();
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting) start(target);
  }, { rootMargin: "400px" });

  function start(plot) {
    seen.unobserve(plot);
    const first = waiting.get(plot);
    waiting.delete(plot);
    first?.();
  }

  function whenSeen(plot, first) {
    waiting.set(plot, first);
    seen.observe(plot);
  }

  function explore(root, spec, plot) {
    const fields = [...root.querySelectorAll(".kcm-controls input, .kcm-controls select")];
    const readout = root.querySelector(".kcm-readout");
    const at = spec.controls.map((control) => control.start);
    const point = () =>
      spec.points[spec.controls.reduce((index, control, i) => index * control.options.length + at[i], 0)];
    const show = () => {
      const { data, layout } = point();
      return draw(plot, {
        data: data.map((number) => structuredClone(spec.traces[number])),
        layout: { template: spec.template, ...structuredClone(spec.layouts[layout]) },
      });
    };
    fields.forEach((field, i) => field.addEventListener("input", () => {
      const range = field.type === "range";
      at[i] = range ? field.valueAsNumber : field.selectedIndex;
      if (range) {
        const text = spec.controls[i].options[at[i]];
        field.setAttribute("aria-valuetext", text);
        field.nextElementSibling.textContent = text;
      }
      if (readout) readout.textContent = point().readout;
      if (plot && !waiting.has(plot)) show();
    }));
    if (plot) whenSeen(plot, show);
  }

  for (const root of roots) {
    const spec = JSON.parse(root.querySelector("script").textContent);
    const plot = root.querySelector(".kcm-plot");
    if (root.matches(".kcm-explorer")) explore(root, spec, plot);
    else whenSeen(plot, () => draw(plot, spec));
  }

  const drawn = () => [...document.querySelectorAll(".kcm-plot[data-drawn]")];
  new MutationObserver(() => drawn().forEach((plot) => window.Plotly.relayout(plot, colours(plot.layout))))
    .observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  addEventListener("beforeprint", () => [...waiting.keys()].forEach(start));
})();
