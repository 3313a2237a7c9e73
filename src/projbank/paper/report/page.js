// Click on a heading sorts its table: numbers the larger first, names from A; a second click turns the order round.
"use strict";
for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => {
    const heading = button.closest("th");
    const table = heading.closest("table");
    const column = heading.cellIndex;
    const body = table.tBodies[0];
    const key = (row) => {
      const cell = row.cells[column];
      return cell.dataset.value === undefined ? (column ? null : cell.textContent) : Number(cell.dataset.value);
    };
    const first = heading.getAttribute("aria-sort") || "";
    const falling = first ? first === "ascending" : column > 0;
    const rows = [...body.rows];
    rows.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      const order = typeof x === "number" ? x - y : x.localeCompare(y);
      return falling ? -order : order;
    });
    for (const other of table.tHead.querySelectorAll("th")) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
    body.append(...rows);
  });
}
