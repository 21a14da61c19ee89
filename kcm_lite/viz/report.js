const dark = window.matchMedia("(prefers-color-scheme: dark)");
const narrow = () => window.innerWidth < 520;

function colours() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  const axis = { gridcolor: get("--line"), zerolinecolor: get("--line"), linecolor: get("--line") };
  return { ink: get("--ink"), axis };
}

function themed(layout) {
  const { ink, axis } = colours();
  const out = { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", "font.color": ink };
  for (const key of Object.keys(layout)) {
    if (/^[xy]axis\d*$/.test(key)) {
      for (const [name, value] of Object.entries(axis)) out[`${key}.${name}`] = value;
    }
  }
  return out;
}

const figures = JSON.parse(document.getElementById("figures").textContent);
for (const [id, figure] of Object.entries(figures)) {
  const node = document.getElementById(id);
  if (narrow()) {
    figure.layout.margin = { ...figure.layout.margin, l: figure.layout.meta.narrow, r: 8 };
    figure.layout.font.size = 11;
  }
  Plotly.newPlot(node, figure.data, figure.layout, { responsive: true, displayModeBar: false })
    .then(() => Plotly.relayout(node, themed(figure.layout)));
}
dark.addEventListener("change", () => {
  for (const [id, figure] of Object.entries(figures)) {
    Plotly.relayout(document.getElementById(id), themed(figure.layout));
  }
});
