/* Narrows the table of requirements. Without scripts the form stays hidden, and the table is whole. */
document.addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector("form.narrow");
  if (!form) return;
  const rows = [...document.querySelectorAll("article table tbody tr")];
  const narrow = () => {
    const words = form.elements.text.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const row of rows) {
      const [, level, basis] = [...row.cells].map((cell) => cell.textContent.trim());
      row.hidden = !(
        words.every((word) => row.textContent.toLowerCase().includes(word)) &&
        [level, ""].includes(form.elements.level.value) &&
        [basis, ""].includes(form.elements.basis.value)
      );
      shown += !row.hidden;
    }
    form.elements.shown.value = `${shown} of ${rows.length}`;
  };
  form.addEventListener("input", narrow);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  narrow();
});
