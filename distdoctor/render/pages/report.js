for (const button of document.querySelectorAll(".paste button"))
  button.addEventListener("click", async () => {
    const text = button.parentElement.querySelector("pre").textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const range = document.createRange(); // a page from a file may not write to the clipboard by itself
      range.selectNodeContents(button.parentElement.querySelector("pre"));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
    }
    button.textContent = "copied";
    setTimeout(() => (button.textContent = "copy"), 1500);
  });

document.querySelector(".matrix")?.addEventListener("mouseover", ({ target }) => {
  if (target.tagName !== "TD" || target.dataset.named) return;
  const across = target.closest("table").tHead.rows[0].cells[target.cellIndex].textContent;
  target.title = `${target.parentElement.cells[0].textContent} → ${across}: ${target.title || "not measured"}`;
  target.dataset.named = "1";
});
