// Filters the tables of the ledger: a text, a paper, a verdict, and whose statement it is.
// The choice is kept in the address, as in #paper=ddpsa&verdict=false, so that it can be linked to.
(() => {
  const form = document.getElementById("ledger-filter");
  const shown = form.querySelector("output");
  const rows = [];
  const sections = [];
  for (const table of document.querySelectorAll("article table")) {
    const heads = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    if (heads[0] !== "claim") continue;
    const section = table.closest("section");
    const figure = section.querySelector("h2").firstChild.textContent.split(":")[0];
    const verdict = heads.indexOf("verdict");
    table.classList.add("ledger");
    const own = [];
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, place) => (cell.dataset.head = heads[place]));
      own.push({
        row,
        text: `${figure} ${row.textContent}`.toLowerCase(),
        paper: figure.split("/")[0],
        verdict: row.cells[verdict].textContent.trim(),
        whose: row.cells[0].textContent.includes("(ours)") ? "ours" : "paper",
      });
    }
    rows.push(...own);
    sections.push({ section, own });
  }

  const offer = (name) => {
    for (const value of [...new Set(rows.map((one) => one[name]))].sort())
      form.elements[name].add(new Option(value, value));
  };

  const apply = () => {
    const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = ["paper", "verdict", "whose"].filter((name) => form.elements[name].value);
    let count = 0;
    for (const one of rows) {
      const fits =
        wanted.every((name) => one[name] === form.elements[name].value) &&
        words.every((word) => one.text.includes(word));
      one.row.hidden = !fits;
      count += fits;
    }
    for (const { section, own } of sections) section.hidden = own.every((one) => one.row.hidden);
    shown.textContent = `${count} of ${rows.length} claims`;
  };

  const keep = () => {
    const chosen = [...new FormData(form)].filter(([, value]) => value);
    history.replaceState(null, "", `#${new URLSearchParams(chosen)}`);
  };

  const read = () => {
    if (!location.hash.includes("=")) return; // the anchor of a section
    for (const [name, value] of new URLSearchParams(location.hash.slice(1)))
      if (form.elements[name]) form.elements[name].value = value;
  };

  offer("paper");
  offer("verdict");
  read();
  form.hidden = false;
  form.addEventListener("input", () => (apply(), keep()));
  form.addEventListener("reset", () => setTimeout(() => (apply(), keep())));
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", () => (read(), apply()));
  apply();
})();
