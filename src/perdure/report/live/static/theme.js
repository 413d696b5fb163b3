// The theme: that of the system, or the one that was chosen on the page.

const CHOICES = ["auto", "light", "dark"];
let choice = "auto";

function apply() {
  const button = document.getElementById("theme");
  button.textContent = `Theme: ${choice}`;
  if (choice === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
}

// A browser may forbid storage: the choice then lasts until the page is closed.
try {
  const stored = localStorage.getItem("perdure-theme");
  if (CHOICES.includes(stored)) choice = stored;
} catch { /* as if nothing were stored */ }

document.getElementById("theme").addEventListener("click", () => {
  choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
  try {
    localStorage.setItem("perdure-theme", choice);
  } catch { /* not stored */ }
  apply();
});
apply();
